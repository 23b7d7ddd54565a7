// Defines the kinds of tokens of a vocabulary.
#pragma once

#include <cstdint>

namespace recollect::model {

// The type of a token, by the numbers that GGUF and SentencePiece's files have.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,      // stands for what has no token; like a control token it has no text
  kControl = 3,      // has a name, and no text encodes to it
  kUserDefined = 4,  // its name is its text; byte-level BPE (bpe_tokenizer.h) only emits it
  kUnused = 5,       // a row of the embedding that stands for nothing
  kByte = 6,         // one raw byte, named as "<0x41>"; not in a vocabulary of byte-level BPE
};

}  // namespace recollect::model
