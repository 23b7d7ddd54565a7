// Which tensors a mixer has, by its kind.
#include <cmath>

#include "kernels/cpu/op_context.h"
#include "kernels/linear_attention/linear_attention.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

ResidualWeights ReadResidual(WeightsReader& reader, const ModelConfig& config,
                             const MixerConfig& mixer, const std::string& prefix) {
  ResidualWeights weights;
  if (mixer.window >= 0) weights.swa_norm = reader.Vector(prefix + "swa_norm.weight");
  weights.rla_norm = reader.Vector(prefix + "rla_norm.weight");
  if (mixer.qk_scale) {
    weights.q_scale = reader.Vector(prefix + "rla.q_scale");
    weights.k_scale = reader.Vector(prefix + "rla.k_scale");
  }
  if (mixer.learned_tokens > 0) {
    const std::vector<float> keys = reader.Vector(prefix + "rla.init_k");
    weights.initial = LearnedSum(config, mixer, keys, reader.Vector(prefix + "rla.init_v"));
  }
  return weights;
}

void AddResidualSpecs(const ModelConfig& config, const MixerConfig& mixer,
                      const std::string& prefix, const AddSpec& add) {
  const int64_t heads = config.heads, dim = config.head_dim;
  if (mixer.window >= 0) add(prefix + "swa_norm.weight", {heads, dim});
  add(prefix + "rla_norm.weight", {heads, dim});
  if (mixer.qk_scale) {
    add(prefix + "rla.q_scale", {dim});
    add(prefix + "rla.k_scale", {dim});
  }
  if (mixer.learned_tokens > 0) {
    add(prefix + "rla.init_k", {heads, mixer.learned_tokens, dim});
    add(prefix + "rla.init_v", {heads, mixer.learned_tokens, dim});
  }
}

}  // namespace

std::vector<float> AlibiSlopes(int heads) {
  std::vector<float> slopes;
  for (int head = 1; head <= heads; ++head) {
    // One series for any number of heads, also one that is no power of two.
    slopes.push_back(static_cast<float>(std::exp2(-8.0 * head / heads)));
  }
  return slopes;
}

std::vector<float> LearnedSum(const ModelConfig& config, const MixerConfig& mixer,
                              const std::vector<float>& keys, const std::vector<float>& values) {
  const int dim = config.head_dim;
  const int64_t tokens = int64_t{config.heads} * mixer.learned_tokens,
                size = 2 * int64_t{dim} * dim;
  if (keys.empty() || values.empty()) return {};  // could not be read, which is reported
  kernels::OpContext ctx;
  std::vector<float> features(static_cast<size_t>(2 * tokens * dim));
  kernels::Features(ctx, mixer.feature_map, keys.data(), dim, tokens, 1, dim, nullptr,
                    features.data());
  std::vector<float> sum(static_cast<size_t>(config.heads * size));
  for (int64_t token = 0; token < tokens; ++token) {
    float* s = sum.data() + token / mixer.learned_tokens * size;
    for (int f = 0; f < 2 * dim; ++f) {
      for (int d = 0; d < dim; ++d, ++s) {
        *s += features[static_cast<size_t>(token * 2 * dim + f)] *
              values[static_cast<size_t>(token * dim + d)];
      }
    }
  }
  return sum;
}

int64_t MixerInputRows(const ModelConfig& config, const MixerConfig& mixer) {
  switch (mixer.kind) {
    case MixerKind::kRatPlus:
      return 5 * config.inner();
    case MixerKind::kRat:
      return 3 * config.inner() + 2 * static_cast<int64_t>(mixer.shared_heads) * config.head_dim;
    case MixerKind::kAttention:
    case MixerKind::kRattention:
      return config.inner() + 2 * config.kv_width();
  }
  return 0;
}

void AddMixerSpecs(const ModelConfig& config, const LayerParts& parts, const std::string& prefix,
                   const AddSpec& add) {
  const int64_t d = config.d, inner = config.inner();
  const MixerConfig& mixer = parts.mixer;
  add(prefix + "mixer_norm.weight", {d});
  add(prefix + "mixer.in_proj.weight", {MixerInputRows(config, mixer), d});
  if (parts.gate_bias) add(prefix + "mixer.gate_bias", {inner});
  if (mixer.qk_norm) {
    add(prefix + "mixer.q_norm.weight", {config.head_dim});
    add(prefix + "mixer.k_norm.weight", {config.head_dim});
  }
  if (mixer.kind == MixerKind::kRattention) AddResidualSpecs(config, mixer, prefix + "mixer.", add);
  add(prefix + "mixer.out_proj.weight", {d, inner});
}

MixerWeights ReadMixer(WeightsReader& reader, const ModelConfig& config, const LayerParts& parts,
                       const std::string& prefix) {
  MixerWeights weights;
  weights.config = parts.mixer;
  weights.norm = reader.Vector(prefix + "mixer_norm.weight");
  weights.in_proj = reader.Matrix(prefix + "mixer.in_proj.weight");
  if (parts.gate_bias) weights.gate_bias = reader.Vector(prefix + "mixer.gate_bias");
  if (parts.mixer.qk_norm) {
    weights.q_norm = reader.Vector(prefix + "mixer.q_norm.weight");
    weights.k_norm = reader.Vector(prefix + "mixer.k_norm.weight");
  }
  if (parts.mixer.positions == Positions::kAlibi) {
    weights.alibi_slopes = AlibiSlopes(config.heads);
  }
  if (parts.mixer.kind == MixerKind::kRattention) {
    weights.residual = ReadResidual(reader, config, parts.mixer, prefix + "mixer.");
  }
  weights.out_proj = reader.Matrix(prefix + "mixer.out_proj.weight");
  return weights;
}

}  // namespace recollect::model
