// Quotes answer the questions of a message: the best candidate of each, with the sentences beside
// it that are nearly as good (docs/decisions/0085-each-question-is-answered.md and 0088).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/types.h"
#include "model/config/judge_config.h"
#include "model/text/tokenizer.h"

namespace recollect::engine {

// Whether the answer to each question is best left to the model's own words. REQUIRES: each has
// candidates.
bool OwnWordsAreBest(std::span<const JudgedCandidates> judged);

// Holds what a message is answered with.
struct Quotes {
  // Answers each question, in order: the sentence or refusal of the largest score, with the
  // sentences around it that JudgeConfig::margin allows. Nothing if it has been said to an earlier
  // one, or if the model's own words are best. Borrowed.
  std::vector<std::span<const JudgedCandidates::Candidate>> said;
  std::vector<int32_t> tokens;  // of the whole answer; each of several questions has a line
};

// Returns what the candidates of each question make of an answer that begins with `beginning`; no
// tokens if nothing does.
Quotes QuotesOf(const model::Tokenizer& tokenizer, const model::JudgeConfig& config,
                std::span<const JudgedCandidates> judged, std::span<const int32_t> beginning);

// Adds to `retrieval`, that of the prompt's end, the quoted block with its quote. It may be one
// that only the reader has read. REQUIRES: `quoted` is no refusal.
void AddQuote(const JudgedCandidates& judged, const JudgedCandidates::Candidate& quoted,
              Retrieval& retrieval);

}  // namespace recollect::engine
