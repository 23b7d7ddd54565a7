// Text to token ids and back, with the same ids however the text is divided into messages.
//
//   ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load("models/recollect-7m/tokenizer.model"));
//   ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->Encode("the whale"));
//
// Text is cut by rules on the text alone (docs/tokenizers.md, "Tokenizer"), and each part is
// encoded on its own. A stream of text can therefore be tokenised as it arrives: everything before
// the last cut that later text cannot change is decided.
//
// Two kinds: SentencePiece (sentencepiece_tokenizer.h) and byte-level BPE (bpe_tokenizer.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace recollect::model {

// Thread-safe.
class Tokenizer {
 public:
  // Reads a tokenizer.model of SentencePiece.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const std::string& path);
  virtual ~Tokenizer() = default;

  // INVALID_ARGUMENT names the byte offset of the first byte that is not UTF-8. Control tokens
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

  // Returns the bytes a token stands for (one raw byte for byte pieces, empty for control tokens).
  // The concatenation of all tokens' bytes is the text, except bytes for which a byte-level
  // vocabulary has no token; a single token's bytes need not be valid UTF-8. Decode drops the space
  // of a dummy prefix; with such a model U+2581 comes back as a space.
  std::string_view TokenBytes(int32_t id) const;
  virtual std::string Decode(const std::vector<int32_t>& ids) const;

  int64_t vocab_size() const { return std::ssize(bytes_); }
  // Returns the name of the kind, "SentencePiece" or "ByteLevelBPE", which clients are told.
  virtual const char* kind() const = 0;

  // Finds a control token by its name, such as "<|im_end|>". No text encodes to it; templates of
  // conversations place it by id.
  std::optional<int32_t> ControlToken(std::string_view name) const;
  // Returns the name of a control token or of the unknown one, empty for every other id.
  std::string_view ControlName(int32_t id) const;
  // Returns the token that stands before a text or conversation, if the vocabulary names one.
  // Encode does not add it.
  std::optional<int32_t> BeginToken() const { return begin_; }

 protected:
  // EncodePrefix of valid UTF-8, whose last character may be incomplete unless `final`.
  virtual absl::StatusOr<Encoded> EncodeValid(std::string_view text, bool final,
                                              int64_t base_offset) const = 0;
  // Adds the next id: with a name if it is a control token or the unknown one, else with bytes. As
  // many as were reserved keep their addresses.
  void AddToken(std::string bytes, std::string name);
  void ReserveTokens(size_t count) { bytes_.reserve(count); }

  std::optional<int32_t> begin_;

 private:
  std::vector<std::string> bytes_, names_;                // by id
  std::map<std::string, int32_t, std::less<>> controls_;  // by name
};

// Returns the offset of the first byte that is not part of valid UTF-8, or -1. A sequence cut off
// by the end counts as invalid unless `allow_partial_end`.
int64_t FindInvalidUtf8(std::string_view text, bool allow_partial_end);

// Returns `text`, a part of valid UTF-8, without the characters that its two ends cut.
std::string WholeCharacters(std::string text);

}  // namespace recollect::model
