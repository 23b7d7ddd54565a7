// The judge of a memory adapter: it chooses among several drafts of one answer, from what the model
// says of them and what was read (docs/decisions/0076-a-judge-of-drafts.md). Trained by
// train/memory/judge.py, which is its oracle.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config/judge_config.h"
#include "model/reading.h"
#include "model/text/words.h"

namespace recollect::model {

// The beginning of an answer, or all of it.
struct Draft {
  std::vector<int32_t> tokens;  // at least one; without the end token
  std::vector<float> logprobs;  // natural; of the tokens, and of the end if it has one
  bool ended = false;
  bool from_span = false;  // it begins with a span of the reader
};

// A block that the answer reads. Borrows its tokens.
struct ReadBlock {
  std::span<const int32_t> tokens;
  float weight = 0;
  int64_t document = 0;  // equal in blocks of the same one
};

// Immutable; thread-safe. Borrows the words.
class Judge {
 public:
  // `refusal`: the tokens of JudgeConfig::refusal.
  Judge(JudgeConfig config, const Words& words, std::span<const int32_t> refusal);

  const JudgeConfig& config() const { return config_; }
  // The scores of the drafts; the larger, the likelier it is right. `question`: the tokens of the
  // user's last message; `reading`: of the blocks, empty without a reader. REQUIRES: drafts and
  // blocks are not empty.
  std::vector<double> Scores(std::span<const int32_t> question, std::span<const ReadBlock> blocks,
                             const Reading& reading, std::span<const Draft> drafts) const;

 private:
  const JudgeConfig config_;
  const Words& words_;
  const std::vector<int32_t> refusal_;  // its words
};

}  // namespace recollect::model
