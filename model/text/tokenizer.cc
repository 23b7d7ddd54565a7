#include "model/text/tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
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

absl::StatusOr<Tokenizer::Encoded> Tokenizer::EncodePrefix(std::string_view text, bool final,
                                                           int64_t base_offset) const {
  const int64_t invalid = FindInvalidUtf8(text, /*allow_partial_end=*/!final);
  if (invalid < 0) return EncodeValid(text, final, base_offset);
  return absl::InvalidArgumentError(
      absl::StrCat("text is not valid UTF-8 at byte ", base_offset + invalid));
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  RECOLLECT_CHECK(id >= 0 && id < vocab_size());
  return bytes_[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::ControlToken(std::string_view name) const {
  const auto found = controls_.find(name);
  return found == controls_.end() ? std::nullopt : std::optional(found->second);
}

std::string_view Tokenizer::ControlName(int32_t id) const {
  RECOLLECT_CHECK(id >= 0 && id < vocab_size());
  return names_[static_cast<size_t>(id)];
}

void Tokenizer::AddToken(std::string bytes, std::string name) {
  if (!name.empty()) controls_.emplace(name, static_cast<int32_t>(vocab_size()));
  bytes_.push_back(std::move(bytes));
  names_.push_back(std::move(name));
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids) const {
  std::string text;
  for (const int32_t id : ids) text += TokenBytes(id);
  return text;
}

}  // namespace recollect::model
