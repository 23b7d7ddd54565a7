// The judge of a memory adapter: it chooses what a question about documents is answered with, from
// what the reader finds in them (docs/decisions/0078-answers-are-sentences.md). Trained by
// train/memory/judge.py, which is its oracle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config/judge_config.h"
#include "model/text/words.h"

namespace recollect::model {

// A possible answer: a sentence of a document, or the refusal.
struct Candidate {
  std::vector<int32_t> tokens;
  int64_t block = -1;  // where the sentence's best span is, as an index; -1: it is the refusal
  float logprob = 0;   // natural: of that span; of the refusal's first token
  float reranked = 0;  // CpuModel::Rerank's score of the sentence, where there is a reranker
};

// A block that the reader has read. Borrows its tokens.
struct ReadBlock {
  std::span<const int32_t> tokens;
  float weight = 0;
  int64_t document = 0;  // equal in blocks of the same one
};

// Immutable; thread-safe. Borrows the words.
class Judge {
 public:
  Judge(JudgeConfig config, const Words& words);

  const JudgeConfig& config() const { return config_; }
  // Returns the scores of the candidates; the larger, the likelier one is right. `question`: the
  // tokens of the user's last message; `nothing`: Reading::nothing of the blocks. REQUIRES: a
  // candidate is no refusal.
  std::vector<double> Scores(std::span<const int32_t> question, std::span<const ReadBlock> blocks,
                             float nothing, std::span<const Candidate> candidates) const;

 private:
  const JudgeConfig config_;
  const Words& words_;
};

}  // namespace recollect::model
