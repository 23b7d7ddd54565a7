// A reading finds the spans of blocks in which the answer to a question most likely stands, by the
// reader of a memory adapter (docs/decisions/0077-a-reader-of-blocks.md). Its rows are computed
// by CpuModel::ReadBlock; trained by train/memory/reader.py, which is its oracle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/numeric/bf16.h"
#include "model/config/reader_config.h"

namespace recollect::model {

// A block as the reader has it. Borrowed.
struct ReaderBlock {
  const Bf16* rows = nullptr;       // [tokens, c]: Memory::reader_rows
  std::span<const int32_t> tokens;  // at least one
  float weight = 0;                 // of its retrieval
};

// Borrows the question's rows and tokens.
struct ReaderQuestion {
  std::span<const Bf16> rows;       // [at most question_tokens, c]: CpuModel::AskReader
  std::span<const int32_t> tokens;  // of the question alone
  std::vector<ReaderBlock> blocks;  // at least one
};

// Scores of one token, before the softmax over all tokens: that an answer begins
// with it, that one ends with it, and that there is none.
struct TokenScores {
  float begins = 0, ends = 0, nothing = 0;
};

// Consecutive tokens of a block.
struct Span {
  size_t block = 0;  // index into the question's
  int first = 0, last = 0;
  float logprob = 0;  // natural: that the answer begins with `first` and ends with `last`
};

// Returns the span's tokens, of those of its block.
inline std::span<const int32_t> TokensOf(const Span& span, std::span<const int32_t> block) {
  return block.first(static_cast<size_t>(span.last) + 1).subspan(static_cast<size_t>(span.first));
}

struct Reading {
  std::vector<Span> spans;  // the likeliest first; none has a token of another
  float nothing = 0;        // ln of the probability that the blocks have no answer
};

// Returns the reading of blocks of which `scores` are those of each token. The softmax is over all
// tokens and "nothing", whose score is the mean over the tokens; a span's probability is that of
// its first token times that of its last.
Reading MakeReading(const ReaderConfig& config, std::span<const std::vector<TokenScores>> scores);

}  // namespace recollect::model
