// The vocabulary of a SentencePiece BPE model as files hold it: read from a tokenizer.model or from
// a GGUF file's metadata. SentencePieceModel checks and uses it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/text/token_type.h"

namespace recollect::model {

class GgufMetadata;

// SentencePiece writes a space inside a piece as this character (U+2581), so the character itself
// must go through byte pieces.
inline constexpr char kSpaceMarkBytes[] = "\xe2\x96\x81";  // one address in all sources
inline constexpr std::string_view kSpaceMark = kSpaceMarkBytes;

struct SentencePiece {
  std::string text;
  float score = 0;  // of two pairs of neighbours the one whose piece has the higher score is merged
  TokenType type = TokenType::kNormal;
};

struct SentencePieceVocabulary {
  std::vector<SentencePiece> pieces;  // by id
  bool dummy_prefix = true;           // a space belongs before every text
  // Texts are encoded as wholes, to the ids of the library. If false they are cut into segments
  // first, which this project's own models are trained with (docs/tokenizers.md).
  bool whole_text = true;
  int32_t bos = -1;      // -1: the file names none
  bool add_bos = false;  // the file asks for `bos` before a text

  // Reads a tokenizer.model. INVALID_ARGUMENT names the problem: not SentencePiece's format, not
  // BPE, unused pieces, or a normaliser that changes text. `bos` is the control symbol `<s>` or
  // `<bos>`.
  static absl::StatusOr<SentencePieceVocabulary> FromModelFile(std::string_view file);

  // Reads `tokenizer.ggml.*` of the model "llama". A token that the file names as the begin or an
  // end, or that is written like one of a conversation (IsControlName), becomes a control token
  // whatever type it has there. INVALID_ARGUMENT names the key, what it holds and what was
  // expected.
  static absl::StatusOr<SentencePieceVocabulary> FromGguf(const GgufMetadata& metadata);
};

// Whether a token of this text begins or ends something in the formats of conversations: "<|...|>",
// "</s>", "[INST]". Files have such tokens also as user-defined or normal ones, and a message that
// holds the text must not become the token.
bool IsControlName(std::string_view text);

}  // namespace recollect::model
