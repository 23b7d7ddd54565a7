// The tensors of a memory adapter's reranker (docs/llama.md, "Reranker"): a file of its own beside
// the adapter's, with changes of low rank of the base's matrices. Private to model/ and its tests.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "model/config/config.h"
#include "model/weights/weights.h"

namespace recollect::model {

// Lists every tensor of a reranker of this config.
std::vector<TensorSpec> RerankerTensors(const ModelConfig& config);

// Fills in AdapterWeights::reranker from `file`; and, if the base's weights are not read, those of
// its lowest layers and Weights::embed from `base`. Adds to Weights::bytes. REQUIRES:
// CheckTensors(file, RerankerTensors(config)) and CheckTensors(base, ExpectedTensors(config))
// returned OK, and ReadAdapter did. INVALID_ARGUMENT: a number that is not finite.
absl::Status ReadReranker(const TensorFile& file, const TensorFile& base, const ModelConfig& config,
                          DType dtype, Weights& weights);

}  // namespace recollect::model
