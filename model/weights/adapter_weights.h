// The tensors of a memory adapter (docs/llama.md, "Memory adapter"): a file beside that of
// the pretrained model. Private to model/ and its tests.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/weights/weights.h"

namespace recollect::model {

inline constexpr float kAdapterNormEps = 1e-6f;

// Lists every tensor of an adapter of this config.
std::vector<TensorSpec> AdapterTensors(const ModelConfig& config);

// Reads W_o of a layer's GCA, [d, heads * head_dim], with the factor of each head in it, which
// stands before W_o. INVALID_ARGUMENT: a number that is not finite.
absl::StatusOr<std::vector<float>> ReadGatedOutput(const TensorFile& file,
                                                   const ModelConfig& config, int layer);

// Fills in Weights::adapter and the GCA of the layers that read; adds to Weights::bytes. REQUIRES:
// CheckTensors(file, AdapterTensors(config)) returned OK, and the layers are read.
// INVALID_ARGUMENT: a number that is not finite.
absl::Status ReadAdapter(const TensorFile& file, const ModelConfig& config, DType dtype,
                         Weights& weights);

// Returns the difference by which a retrieved block's successor scores less than the block:
// softplus of the tensor score.successor.
absl::StatusOr<float> ReadSuccessorDistance(const TensorFile& file);

}  // namespace recollect::model
