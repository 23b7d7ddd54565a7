// Quotes answer questions about documents: of the sentences in which the adapter's reader finds an
// answer, and the refusal, its judge chooses one, which is said token by token
// (docs/decisions/0078-answers-are-sentences.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/step/log_softmax.h"
#include "engine/step/piece.h"
#include "engine/types.h"
#include "model/judge.h"
#include "model/model.h"

namespace recollect::engine {

// The sentences that may answer a question, those with the likeliest spans first.
struct FoundSentences {
  std::vector<model::Candidate> sentences;  // without what a reranker says
  std::vector<std::vector<int32_t>> texts;  // RerankerTokens of each; empty without a reranker
};

// Returns those of Piece::reading and Piece::question. REQUIRES: the model has a judge, and the
// piece's last row reads documents.
FoundSentences FindSentences(const model::Model& model, const Piece& piece);

// Returns what a question may be answered with, judged; without candidates if nothing was found.
// `question`: the tokens of the user's last message; `first`: the probabilities of the answer's
// first token; `piece`: ends with the prompt, and has Piece::sentences. REQUIRES: the model has a
// judge.
JudgedCandidates JudgeCandidates(const model::Model& model, std::span<const int32_t> question,
                                 const LogSoftmax& first, const Piece& piece);

// Returns the candidate of the largest score of those that begin with these tokens; null if none
// does.
const JudgedCandidates::Candidate* BestOf(const JudgedCandidates& judged,
                                          std::span<const int32_t> beginning);

// Adds to `retrieval`, that of the prompt's end, the quoted block with its quote. It may be one
// that only the reader has read. REQUIRES: `quoted` is no refusal.
void AddQuote(const JudgedCandidates& judged, const JudgedCandidates::Candidate& quoted,
              Retrieval& retrieval);

}  // namespace recollect::engine
