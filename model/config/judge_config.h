// The numbers that a judge of candidates (model/judge.h) looks at, and its weights: "judge" of
// memory.json.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace recollect::model {

// The numbers that a candidate is judged by, in the order of the weights. Words are those of
// model/text/words.h, but for the blank one; idf of a set is the sum over its words. An ln p of the
// reader is at least -15 here.
struct CandidateFeature {
  enum Index : size_t {
    kRefuses,  // 1 of the refusal; else 0
    kFirst,    // of the refusal, ln p of its first token by the model; else 0
    kNothing,  // ln p that the blocks have no answer, by the reader
    kBest,     // ln p of the reader's best span
    // The refusal has the sum over all blocks, and zeros:
    kWeight,    // of the block
    kDocument,  // Σ weights of the blocks of the block's document
    kAsked,     // idf(the question's words in the sentence) / idf(question)
    kBlock,     // idf(the question's words in the block) / idf(question)
    kSpan,      // ln p of the sentence's best span
    kWords,     // how many different words the sentence has
    // Where there is a reranker:
    kReranked,      // its score of the sentence; 0 of the refusal
    kBestReranked,  // its best score of a sentence
    kCount,
    kWithoutReranker = kReranked
  };
};

// score = Σ linear_i x_i + Σ_h out_h tanh(bias_h + Σ in_hi x_i) for the features x of a candidate.
struct JudgeConfig {
  struct Unit {
    double out = 0, bias = 0;
    std::vector<double> in;  // by feature
  };
  int sentence_tokens = 0;  // the most of a candidate; 0: there is no judge
  std::string refusal;      // what is said where documents do not answer
  std::vector<double> linear;
  std::vector<Unit> hidden;

  bool exists() const { return sentence_tokens > 0; }
};

}  // namespace recollect::model
