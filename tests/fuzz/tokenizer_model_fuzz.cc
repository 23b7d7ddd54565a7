// The input is a tokenizer.model.
#include "model/text/sentencepiece_vocabulary.h"
#include "tests/fuzz/tokenizer_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;
  const fuzz::InputFile input(fuzz::AsText(data, size));
  const auto tokenizer = model::Tokenizer::Load(input.path());
  if (!tokenizer.ok()) {
    fuzz::CheckRefusal(tokenizer.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  const auto vocabulary = model::SentencePieceVocabulary::FromModelFile(fuzz::AsText(data, size));
  RECOLLECT_CHECK(vocabulary.ok());
  RECOLLECT_CHECK((*tokenizer)->vocab_size() == std::ssize(vocabulary->pieces));
  // All its pieces one after the other: where they are text, its own merges.
  std::string own;
  for (int id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    const std::string_view bytes = (*tokenizer)->TokenBytes(id);
    if (model::FindInvalidUtf8(bytes, /*allow_partial_end=*/false) < 0) own += bytes;
  }
  for (const std::string& text :
       {std::string("the  ship\n was\t caf\u00e9 \u2581 \U0001f40b"), own}) {
    fuzz::CheckTokenizer(**tokenizer, text, text.size() / 2, vocabulary->dummy_prefix);
  }
  return 0;
}
