// The numbers that a judge of candidates (model/judge.h) looks at, and its weights: "judge" of
// memory.json.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::model {

// The numbers that a candidate is judged by, in the order of the weights; memory.json has their
// names. Words are those of model/text/words.h, but for the blank one; idf of a set is the sum over
// its words. An ln p of the reader is at least -15 here.
struct CandidateFeature {
  enum Index : size_t {
    kRefuses,   // 1 of the refusal; else 0
    kOwnWords,  // 1 of the model's own words; else 0
    kUnneeded,  // the log odds that no document is needed, by the weight of nothing; within ±15
    kNothing,   // ln p that the blocks have no answer, by the reader
    kBest,      // ln p of the reader's best span
    // The refusal and the model's own words have the sum over all blocks, and zeros:
    kWeight,    // of the block
    kDocument,  // Σ weights of the blocks of the block's document
    kAsked,     // idf(the question's words in the sentence) / idf(question)
    kBlock,     // idf(the question's words in the block) / idf(question)
    kSpan,      // ln p of the sentence's best span
    kWords,     // how many different words the sentence has
    // Where there is a reranker:
    kReranked,      // its score; of the model's own words that of kNoDocument; 0 of the refusal
    kBestReranked,  // its best score of a sentence
    kCount,
    kWithoutReranker = kReranked
  };
  static constexpr std::array<std::string_view, kCount> kNames = {
      "refuses", "own_words", "unneeded", "nothing", "best",     "weight",       "document",
      "asked",   "block",     "span",     "words",   "reranked", "best_reranked"};
};

// score = Σ linear_i x_i + Σ_h out_h tanh(bias_h + Σ in_hi x_i) for the features x of a candidate.
struct JudgeConfig {
  struct Unit {
    double out = 0, bias = 0;
    std::vector<double> in;  // by feature
  };
  int passage_blocks = 0;   // of which the sentences are candidates, the most; 0: there is no judge
  int sentence_tokens = 0;  // the most of a candidate, and of all that are said together
  double margin = 0;  // sentences around the best one are said, too, if their scores are that near
  std::string refusal;  // what is said where documents do not answer
  std::vector<double> linear;
  std::vector<Unit> hidden;

  bool exists() const { return passage_blocks > 0; }
};

}  // namespace recollect::model
