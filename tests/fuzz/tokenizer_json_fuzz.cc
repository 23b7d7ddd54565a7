// The input is a tokenizer.json.
#include "model/text/bpe_tokenizer.h"
#include "tests/fuzz/tokenizer_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;
  auto vocabulary = model::BpeVocabulary::FromTokenizerJson(fuzz::AsText(data, size));
  if (!vocabulary.ok()) {
    fuzz::CheckRefusal(vocabulary.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  const size_t tokens = vocabulary->tokens.size();
  const auto tokenizer = model::BpeTokenizer::Create(*std::move(vocabulary));
  if (!tokenizer.ok()) {
    fuzz::CheckRefusal(tokenizer.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  RECOLLECT_CHECK((*tokenizer)->vocab_size() == static_cast<int64_t>(tokens));
  // Its tokens one after the other: where they are text, its own merges. A vocabulary need not have
  // a token for each byte, so that texts do not always come back.
  std::string own;
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    own += (*tokenizer)->TokenBytes(id);
    own += (*tokenizer)->ControlName(id);
  }
  for (const std::string& text :
       {std::string("the  ship\n was\t caf\u00e9 12 'll \U0001f40b"), own}) {
    if (model::FindInvalidUtf8(text, /*allow_partial_end=*/false) >= 0) continue;
    const auto ids = (*tokenizer)->Encode(text);
    RECOLLECT_CHECK(ids.ok());
    for (const int32_t id : *ids) RECOLLECT_CHECK(!(*tokenizer)->TokenBytes(id).empty());
    fuzz::InTwoPieces(**tokenizer, text, text.size() / 2, *ids);
  }
  return 0;
}
