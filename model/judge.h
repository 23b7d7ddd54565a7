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

// A possible answer: a sentence of a document, the refusal, or what the model says by itself, which
// is not known yet.
struct Candidate {
  static constexpr int64_t kRefusal = -1, kOwnWords = -2;
  static constexpr float kNoSpan = -15;  // a span's logprob counts as this at least

  std::vector<int32_t> tokens;  // none of the model's own words
  int64_t block = kRefusal;     // of a sentence: where its best span is, or it begins; an index
  float logprob = kNoSpan;      // natural: of that span
  float reranked = 0;           // RerankerRun's score, of kNoDocument too; of the refusal 0

  // Joins a sentence to the candidate before it, which it follows in its document: a blank or the
  // end of a line; 0: it follows none.
  char joint = 0;

  bool is_sentence() const { return block >= 0; }
};

// A block that the reader has read. Borrows its tokens.
struct ReadBlock {
  std::span<const int32_t> tokens;
  float weight = 0;
  int64_t document = 0;  // equal in blocks of the same one
};

// Holds what is known of a question before it is answered.
struct Evidence {
  std::span<const int32_t> question;  // its tokens
  std::span<const ReadBlock> blocks;
  float unneeded = 0;  // the weight of nothing: how likely no document is needed
  float nothing = 0;   // Reading::nothing of the blocks
};

// Immutable; thread-safe. Borrows the words.
class Judge {
 public:
  Judge(JudgeConfig config, const Words& words);

  const JudgeConfig& config() const { return config_; }
  // Returns the scores of the candidates; the larger, the likelier one is right. REQUIRES: one of
  // them is a sentence.
  std::vector<double> Scores(const Evidence& evidence, std::span<const Candidate> candidates) const;

 private:
  const JudgeConfig config_;
  const Words& words_;
};

}  // namespace recollect::model
