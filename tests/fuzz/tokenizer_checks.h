// Checks for any tokenizer and text.
#pragma once

#include <string>
#include <vector>

#include "model/text/tokenizer.h"
#include "tests/fuzz/fuzzing.h"

namespace recollect::fuzz {

// Encodes the text in two pieces, the second of which begins with what the first left undecided.
// Aborts unless their ids together are `ids`.
inline std::vector<model::Tokenizer::Encoded> InTwoPieces(const model::Tokenizer& tokenizer,
                                                          std::string_view text, size_t cut,
                                                          const std::vector<int32_t>& ids) {
  cut = std::min(cut, text.size());
  const auto first =
      tokenizer.EncodePrefix(text.substr(0, cut), /*final=*/false, /*base_offset=*/0);
  RECOLLECT_CHECK(first.ok() && first->consumed <= static_cast<int64_t>(cut));
  const std::string_view rest = text.substr(static_cast<size_t>(first->consumed));
  const auto second = tokenizer.EncodePrefix(rest, /*final=*/true, first->consumed);
  RECOLLECT_CHECK(second.ok() && second->consumed == std::ssize(rest));
  std::vector<int32_t> joined = first->ids;
  joined.insert(joined.end(), second->ids.begin(), second->ids.end());
  RECOLLECT_CHECK(joined == ids);
  return {*first, *second};
}

// Aborts unless the ids are the same for the text at once and in two pieces, each id covers its
// bytes, and together they give the text. `whole_text`: the model puts a space before texts.
inline void CheckTokenizer(const model::Tokenizer& tokenizer, std::string_view text, size_t cut,
                           bool whole_text) {
  const auto ids = tokenizer.Encode(text);
  if (model::FindInvalidUtf8(text, /*allow_partial_end=*/false) >= 0) {
    CheckRefusal(ids.status(), {absl::StatusCode::kInvalidArgument});
    return;
  }
  RECOLLECT_CHECK(ids.ok());
  // Such a model reads U+2581 as a space.
  if (!whole_text || text.find("\u2581") == text.npos) {
    RECOLLECT_CHECK(tokenizer.Decode(*ids) == text);
  }
  for (const auto& encoded : InTwoPieces(tokenizer, text, cut, *ids)) {
    int64_t bytes = 0;
    for (const int32_t count : encoded.token_bytes) bytes += count;
    RECOLLECT_CHECK(bytes == encoded.consumed && encoded.ids.size() == encoded.token_bytes.size());
  }
}

}  // namespace recollect::fuzz
