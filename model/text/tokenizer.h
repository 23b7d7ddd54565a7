// Text to token ids and back (SentencePiece), with the same ids however the text is divided into
// messages.
//
// Text is first cut into segments by fixed rules on the text alone (docs/model-format.md,
// "Tokenizer"); each segment is encoded on its own. A stream of text can therefore be tokenised as
// it arrives: everything before the last cut that later text cannot change is decided.
//
// A model that puts a space before every text ("dummy prefix", LLaMA's) encodes texts as wholes
// instead, with the library's ids; cuts are then made only where they cannot change an id.
#ifndef RECOLLECT_MODEL_TEXT_TOKENIZER_H_
#define RECOLLECT_MODEL_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace recollect::model {

// Thread-safe.
class Tokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);
  ~Tokenizer();

  // INVALID_ARGUMENT names the byte offset of the first byte that is not UTF-8. Control symbols
  // written as text are ordinary text.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const;

  // Encodes the decided prefix of `text`: tokens and, per token, the number of text bytes it
  // covers. `final` says that no text follows, so that all of it is decided. Sets `consumed` to the
  // number of bytes decided (whole segments); the caller keeps the rest and passes it again with
  // more text. Byte pieces cover 1 byte each. `base_offset` is the offset of `text` in the whole
  // text: it is added to the offset in error messages, and at 0 a model with a dummy prefix adds
  // its space. An incomplete UTF-8 sequence at the end is undecided unless `final`.
  struct Encoded {
    std::vector<int32_t> ids;
    std::vector<int32_t> token_bytes;
    int64_t consumed = 0;
  };
  absl::StatusOr<Encoded> EncodePrefix(std::string_view text, bool final,
                                       int64_t base_offset) const;

  // The bytes a token stands for (one raw byte for byte pieces, empty for control symbols). The
  // concatenation of all tokens' bytes is the text; a single token's bytes need not be valid UTF-8.
  // Decode drops the space of a dummy prefix; with such a model U+2581 comes back as a space.
  std::string_view TokenBytes(int32_t id) const;
  std::string Decode(const std::vector<int32_t>& ids) const;

  int64_t vocab_size() const;

 private:
  Tokenizer();
  struct State;
  std::unique_ptr<State> state_;
};

// Offset of the first byte that is not part of valid UTF-8, or -1. A sequence cut off by the end
// counts as invalid unless `allow_partial_end`.
int64_t FindInvalidUtf8(std::string_view text, bool allow_partial_end);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_TEXT_TOKENIZER_H_
