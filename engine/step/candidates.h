// Candidates for the answer to a question about documents: the sentences of a few passages, the
// refusal, and the model's own words, of which the adapter's judge chooses one before the layers
// run (docs/decisions/0078-answers-are-sentences.md, 0080, 0081 and 0086).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/step/piece.h"
#include "engine/types.h"
#include "model/judge.h"
#include "model/model.h"
#include "model/reading.h"
#include "model/reranker.h"

namespace recollect::engine {

// Candidates for the answer to a question.
struct FoundCandidates {
  // The sentences of the passages, in order, then the model's own words; without what a reranker
  // says.
  std::vector<model::Candidate> candidates;
  // The text of each passage for the reranker, and the candidates that are its lines; both are
  // empty without a reranker.
  std::vector<model::RerankerText> texts;
  std::vector<std::vector<size_t>> lines;
};

// Returns the candidates to answer a question: the sentences of the blocks with the likeliest
// spans of `reading`, and of those with the largest weights in `memory`, in turn, and of the
// opening of the best block's document. `reading` is of all that `memory` has for the reader.
// Nothing if there is no sentence. REQUIRES: the model has a judge.
FoundCandidates FindCandidates(const model::Model& model, const Piece& piece,
                               std::span<const int32_t> question, const LandmarkMemory& memory,
                               const model::Reading& reading);

// Adds what the reranker says of `found.texts`.
void AddScores(const std::vector<std::vector<float>>& scores, FoundCandidates& found);

// Returns the candidates and the refusal, judged. `unneeded`: the weight of nothing. REQUIRES: as
// above; there is a sentence.
JudgedCandidates JudgeCandidates(const model::Model& model, const Piece& piece,
                                 std::span<const int32_t> question, const LandmarkMemory& memory,
                                 float unneeded, float nothing,
                                 std::vector<model::Candidate> candidates);

}  // namespace recollect::engine
