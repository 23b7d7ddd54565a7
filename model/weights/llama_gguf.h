// The config of the family `llama` from a GGUF file (docs/llama.md).
// Private to model/ and its tests.
#pragma once

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/weights/gguf.h"

namespace recollect::model {

// Reads the metadata, and what tensors say: whether the head is tied, how angles are divided.
// INVALID_ARGUMENT with every problem: an architecture that is not "llama" (named), experts,
// scaling of RoPE that is not known, sizes that do not fit. NOT_FOUND: no architecture.
absl::StatusOr<ModelConfig> LlamaConfigFromGguf(const GgufFile& file);

}  // namespace recollect::model
