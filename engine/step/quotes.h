// Quotes answer questions about documents: the adapter's judge chooses among the sentences in which
// its reader finds an answer, the refusal, and the model's own words. Before the layers run, so
// that they read no document for the last (docs/decisions/0078-answers-are-sentences.md and 0080).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/step/piece.h"
#include "engine/types.h"
#include "model/judge.h"
#include "model/model.h"
#include "model/reading.h"

namespace recollect::engine {

// Candidates for the answer to a question: sentences, those with the likeliest spans first, then
// the model's own words.
struct FoundCandidates {
  std::vector<model::Candidate> candidates;  // without what a reranker says
  std::vector<std::vector<int32_t>> texts;   // RerankerTokens of each; empty without a reranker
};

// Returns them by the spans of `reading`, which is of all that `memory` has for the reader, to
// answer Piece::question; nothing if there is no sentence. REQUIRES: the model has a judge.
FoundCandidates FindCandidates(const model::Model& model, const Piece& piece,
                               const LandmarkMemory& memory, const model::Reading& reading);

// Returns the candidates and the refusal, judged. `unneeded`: the weight of nothing. REQUIRES: as
// above; there is a sentence.
JudgedCandidates JudgeCandidates(const model::Model& model, const Piece& piece,
                                 const LandmarkMemory& memory, float unneeded, float nothing,
                                 std::vector<model::Candidate> candidates);

// Whether the answer is best left to the model's own words.
bool OwnWordsAreBest(const JudgedCandidates& judged);

// Returns the sentence or refusal of the largest score of those that begin with these tokens; null
// if none does, or if the model's own words are best.
const JudgedCandidates::Candidate* BestOf(const JudgedCandidates& judged,
                                          std::span<const int32_t> beginning);

// Adds to `retrieval`, that of the prompt's end, the quoted block with its quote. It may be one
// that only the reader has read. REQUIRES: `quoted` is no refusal.
void AddQuote(const JudgedCandidates& judged, const JudgedCandidates::Candidate& quoted,
              Retrieval& retrieval);

}  // namespace recollect::engine
