#include "model/text/tokenizer.h"

#include <utility>

#include "base/status.h"
#include "model/text/sentencepiece_tokenizer.h"

namespace recollect::model {

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& path) {
  return SentencePieceTokenizer::Load(path);
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text) const {
  ASSIGN_OR_RETURN(Encoded encoded, EncodePrefix(text, /*final=*/true, /*base_offset=*/0));
  return std::move(encoded.ids);
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) text += TokenBytes(id);
  return text;
}

}  // namespace recollect::model
