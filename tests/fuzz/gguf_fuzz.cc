// The input is a GGUF file.
#include <map>

#include "model/text/bpe_tokenizer.h"
#include "model/text/sentencepiece_tokenizer.h"
#include "model/weights/gguf.h"
#include "tests/fuzz/tokenizer_checks.h"

namespace recollect {
namespace {

using model::GgufFile;
using model::GgufMetadata;

// A value has one type: one getter returns it, or says why it cannot; the others name both types.
void ReadKey(const GgufMetadata& metadata, std::string_view key) {
  constexpr auto kCode = absl::StatusCode::kInvalidArgument;
  int wrong_types = 0;
  const auto count = [&](const absl::Status& status) {
    if (status.ok()) return;
    fuzz::CheckRefusal(status, {kCode});
    wrong_types += status.message().find(" is of type ") != absl::string_view::npos ? 1 : 0;
  };
  count(metadata.GetString(key).status());
  count(metadata.GetInt(key).status());
  count(metadata.GetFloat(key).status());
  count(metadata.GetBool(key).status());
  count(metadata.GetStrings(key).status());
  count(metadata.GetInts(key).status());
  count(metadata.GetFloats(key).status());
  // An array of bool has no getter. A key may contain the words that are looked for.
  RECOLLECT_CHECK(wrong_types >= 6 || key.find(" is of type ") != std::string_view::npos);
}

// The tensors are apart from each other, and as large as their shapes.
void ReadTensors(const GgufFile& file) {
  std::multimap<const std::byte*, const model::TensorInfo*> order;
  for (const auto& [name, tensor] : file.tensors()) {
    if (tensor.bytes > 0) order.emplace(tensor.data, &tensor);
    int64_t items = 1;
    for (const int64_t extent : tensor.shape) items *= extent;
    const auto floats = file.ReadFloats(name);
    RECOLLECT_CHECK(floats.ok());
    RECOLLECT_CHECK(std::ssize(*floats) == items);
  }
  const std::byte* end = nullptr;
  for (const auto& [begin, tensor] : order) {
    RECOLLECT_CHECK(end == nullptr || begin >= end);
    end = begin + tensor->bytes;
  }
}

// The names of control tokens, as text, give none of them; that is the reader's promise for
// whatever types the file gives its tokens.
void CheckNames(const model::Tokenizer& tokenizer) {
  std::string names;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) names += tokenizer.ControlName(id);
  const auto ids = tokenizer.Encode(names);
  if (!ids.ok()) return fuzz::CheckRefusal(ids.status(), {absl::StatusCode::kInvalidArgument});
  for (const int32_t id : *ids) RECOLLECT_CHECK(tokenizer.ControlName(id).empty());
}

template <typename Made>
bool Refused(const Made& made) {
  if (made.ok()) return false;
  fuzz::CheckRefusal(made.status(),
                     {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound});
  return true;
}

// Either kind of vocabulary, whatever the file says that it has.
void ReadVocabulary(const GgufMetadata& metadata) {
  if (auto bpe = model::BpeVocabulary::FromGguf(metadata); !Refused(bpe)) {
    const auto tokenizer = model::BpeTokenizer::Create(*std::move(bpe));
    if (!Refused(tokenizer)) CheckNames(**tokenizer);
  }
  if (auto pieces = model::SentencePieceVocabulary::FromGguf(metadata); !Refused(pieces)) {
    const bool space = pieces->dummy_prefix;
    const auto tokenizer = model::SentencePieceTokenizer::Create(*std::move(pieces));
    if (Refused(tokenizer)) return;
    CheckNames(**tokenizer);
    const std::string text = "the  ship\n was\t caf\u00e9 <|x|> \U0001f40b";
    fuzz::CheckTokenizer(**tokenizer, text, text.size() / 2, /*whole_text=*/true);
    RECOLLECT_CHECK(!space ||
                    (*tokenizer)->TokenBytes((*tokenizer)->Encode("x").value()[0])[0] == ' ');
  }
}

}  // namespace
}  // namespace recollect

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recollect;
  const fuzz::InputFile input(fuzz::AsText(data, size));
  const auto file = GgufFile::Open(input.path());
  if (!file.ok()) {
    fuzz::CheckRefusal(file.status(), {absl::StatusCode::kInvalidArgument});
    return 0;
  }
  for (const std::string_view key : file->metadata().keys()) ReadKey(file->metadata(), key);
  ReadTensors(*file);
  ReadVocabulary(file->metadata());
  return 0;
}
