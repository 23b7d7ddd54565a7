// A whole sequence through the model in one go, block after block on one thread: what any cleverer
// schedule must equal.
//
//   ReferenceInput input{.pattern = model.config().local, .blocks = {{5, 6, 7}, {8}}};
//   ReferenceResult result = RunReference(model, input);
#ifndef RECOLLECT_TESTS_SUPPORT_REFERENCE_SEQUENCE_H_
#define RECOLLECT_TESTS_SUPPORT_REFERENCE_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "kernels/landmark_topk.h"
#include "model/model.h"

namespace recollect {

struct ReferenceInput {
  model::LocalPatterns pattern;
  std::vector<std::vector<int32_t>>
      blocks;  // tokens without the landmark, 1 to 63 each, the last may have none
  // Chunks of the mounted documents, in request order.
  std::vector<std::vector<model::EncodedChunk>> mounted = {};
  // Rows handed to RunLayer at a time inside a block; results must not depend on it.
  int64_t rows_per_call = kBlockRows;
};

struct ReferenceResult {
  std::vector<float> logits;                // [positions, vocab_size], landmark positions too
  std::vector<model::EncodedChunk> chunks;  // of every block with tokens, the last one included
  // [group][block]: what the block's landmark selected, candidates numbered as in
  // docs/model-format.md.
  std::vector<std::vector<std::vector<kernels::ScoredCandidate>>> hits;
  model::LocalState state;  // of all layers
};

ReferenceResult RunReference(const model::Model& model, const ReferenceInput& input);

// Logits [ids, vocab_size] of a plain token sequence through all layers of a model without
// landmarks, `rows_per_call` rows at a time; results must not depend on it. `state`, when given, is
// where the sequence goes on, and takes its end.
std::vector<float> RunTokens(const model::Model& model, const model::LocalPatterns& pattern,
                             const std::vector<int32_t>& ids, int64_t rows_per_call = kBlockRows,
                             model::LocalState* state = nullptr);

// Memory ingest of a document: lower layers and encoder only, full chunks and a short one for the
// tail.
std::vector<model::EncodedChunk> IngestReference(const model::Model& model,
                                                 const std::vector<int32_t>& tokens);

// Tokens cut into full blocks and a last shorter one.
std::vector<std::vector<int32_t>> FullBlocks(const std::vector<int32_t>& tokens);

}  // namespace recollect

#endif  // RECOLLECT_TESTS_SUPPORT_REFERENCE_SEQUENCE_H_
