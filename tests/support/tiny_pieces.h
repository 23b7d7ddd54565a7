// The SentencePiece vocabulary of tests/support/llama_tokenizer.model, and such a one as a GGUF
// file has it: 400 pieces with a dummy prefix; <unk>, <s> and </s> at 0, 1 and 2; bytes from 3 on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/sentencepiece_vocabulary.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace recollect {

inline model::SentencePieceVocabulary TinyPieces(
    const std::vector<std::string_view>& controls = {}) {
  model::SentencePieceVocabulary vocabulary =
      model::SentencePieceVocabulary::FromModelFile(
          ReadFile(SourceDir() + "/tests/support/llama_tokenizer.model"))
          .value();
  for (const std::string_view control : controls) {
    vocabulary.pieces.push_back({std::string(control), 0, model::TokenType::kControl});
  }
  return vocabulary;
}

inline void SetPieces(const std::vector<model::SentencePiece>& pieces, GgufWriter& writer) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const model::SentencePiece& piece : pieces) {
    tokens.push_back(piece.text);
    scores.push_back(piece.score);
    types.push_back(static_cast<int32_t>(piece.type));
  }
  writer.Set("tokenizer.ggml.model", "llama")
      .Set("tokenizer.ggml.pre", "default")
      .SetArray("tokenizer.ggml.tokens", tokens)
      .SetArray("tokenizer.ggml.scores", scores)
      .SetArray("tokenizer.ggml.token_type", types);
}

}  // namespace recollect
