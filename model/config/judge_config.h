// The numbers that a judge of drafts (model/judge.h) looks at, and its weights: "judge" of
// memory.json.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace recollect::model {

// The numbers that a draft is judged by, in the order of the weights. Words are those of
// model/text/words.h, but for the blank one; idf of a set is the sum over its words. "The run" is
// the longest that the draft has in common with a block, and "the block" the one that has it; of
// equal ones, that of the largest weight.
struct DraftFeature {
  enum Index : size_t {
    kFirst,     // ln p of the first token
    kLikely,    // p of it
    kRest,      // the sum of ln p of the other tokens and of the end
    kMean,      // the mean of the same
    kTokens,    // without the end
    kEnded,     // 1 if it came to its end
    kRefuses,   // 1 if it begins with JudgeConfig::refusal
    kAgrees,    // Σ kLikely of the other drafts that have a word of idf > 3 in common with it
    kOverlap,   // Σ kLikely · idf(words in common) / idf(its words) of the other drafts
    kRun,       // the words of the run
    kWeight,    // of the block
    kAround,    // idf(the question's words up to 8 before or after the run) / idf(question)
    kAsked,     // idf(the question's words in the block) / idf(question)
    kEchoes,    // idf(its words in the question) / idf(its words)
    kDigits,    // has it a digit: 1 - Σ kLikely of the drafts that begin with one; else 0
    kDocument,  // Σ weights of the blocks of the block's document
    // The next are zero without a reader. p of a span is its probability, and its ln p is at least
    // -15 here; "says": all words of the one stand in the other, in order, one after the other.
    kFromSpan,     // 1 if it was made of a span
    kSpanWords,    // Σ p · idf(words in common) / idf(the span's words)
    kSpanShare,    // Σ p · idf(words in common) / idf(its words)
    kSpanBoth,     // Σ p · the harmonic mean of the two shares
    kNearestSpan,  // the most of ln p + ln of that mean, which is at least 0.001 here
    kSaysSpans,    // Σ p of the spans that it says
    kSaysSpan,  // the most ln p of the spans that it says, -15 without one; less that of the best
    kInSpan,    // the same of the spans that say it
    kBestSpan,  // ln p of the best span
    kNothing,   // ln p that the blocks have no answer
    kCount
  };
};

// score = Σ linear_i x_i + Σ_h out_h tanh(bias_h + Σ in_hi x_i) for the features x of a draft.
struct JudgeConfig {
  struct Unit {
    double out = 0, bias = 0;
    std::vector<double> in;  // by feature
  };
  int drafts = 0;        // the most of one answer; 0: there is no judge
  int draft_tokens = 0;  // the most of each
  int span_drafts = 0;   // how many of the reader's spans are drafts, too
  std::string refusal;   // what the model was trained to say where documents do not answer
  std::vector<double> linear;
  std::vector<Unit> hidden;
};

}  // namespace recollect::model
