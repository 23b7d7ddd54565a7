// The tensors of a memory adapter's reader (docs/llama.md, "Reader"): a file of its own beside the
// adapter's. Private to model/ and its tests.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/weights/weights.h"

namespace recollect::model {

// Returns the sizes of the reader's layers, as a config that the functions of layers take.
ModelConfig ReaderLayers(const ReaderConfig& reader);

// Lists every tensor of a reader of this config.
std::vector<TensorSpec> ReaderTensors(const ModelConfig& config);

// Fills in AdapterWeights::reader; adds to Weights::bytes. REQUIRES: CheckTensors(file,
// ReaderTensors(config)) returned OK. INVALID_ARGUMENT: a number that is not finite.
absl::Status ReadReader(const TensorFile& file, const ModelConfig& config, DType dtype,
                        Weights& weights);

}  // namespace recollect::model
