// Makes the config of the family `llama` (docs/llama.md) from what published
// checkpoints of that architecture say about themselves: the config.json of the Hugging Face
// layout, or (model/weights/llama_gguf.h) the metadata of a GGUF file. Private to model/ and its
// tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "model/config/config.h"
#include "model/config/config_fields.h"
#include "nlohmann/json.hpp"

namespace recollect::model {

// The scaling of RoPE in LLaMA 3: angles of wavelengths above original_context / low_freq_factor
// are divided by `factor`, angles below original_context / high_freq_factor stay, and between them
// the frequency is interpolated linearly over original_context / wavelength.
struct Llama3Scaling {
  double factor = 1, low_freq_factor = 1, high_freq_factor = 1;
  int64_t original_context = 0;
};
// Returns divisors [head_dim / 2] for kernels::RopeAngles.
std::vector<double> RopeDivisors(const Llama3Scaling& scaling, double base, int head_dim);

// The names that a layout has for the sizes that both layouts have.
struct LlamaSizeNames {
  const char *d, *ffn, *layers, *context, *heads, *kv_heads, *head_dim;
};
// Reads them, the last two only if they are there.
void ReadLlamaSizes(Fields& fields, const LlamaSizeNames& names, ModelConfig& config);

// Makes the family's config of what is read: attention over everything before in every layer,
// SwiGLU, no landmarks. Generation ends at `ends`, of which the first is the end of text. Collects
// in `problems` the values that are out of range.
void CompleteLlama(const std::vector<int32_t>& ends, std::vector<std::string>& problems,
                   ModelConfig& config);

// Whether this config.json is of the Hugging Face layout (it has "model_type"), and not ours.
bool IsHubConfig(const nlohmann::json& root);

// Converts a config.json of Hugging Face. INVALID_ARGUMENT with every problem: another model_type
// (named, with the one that is known), biases, another activation, scaling of RoPE that is not
// known, sizes that do not fit.
absl::StatusOr<ModelConfig> LlamaConfigFromHub(const nlohmann::json& root);

}  // namespace recollect::model
