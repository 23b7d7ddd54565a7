// Which tensors a mixer has, by its kind.
#include <cmath>

#include "kernels/cpu/op_context.h"
#include "kernels/linear_attention/linear_attention.h"
#include "model/weights/weights_reader.h"

namespace recollect::model {
namespace {

void AddResidual(WeightsReader& reader, const ModelConfig& config, const MixerConfig& mixer,
                 const std::string& prefix, ResidualWeights& weights) {
  const int64_t heads = config.heads, dim = config.head_dim, tokens = mixer.learned_tokens;
  if (mixer.window >= 0) reader.Vector(prefix + "swa_norm.weight", {heads, dim}, weights.swa_norm);
  reader.Vector(prefix + "rla_norm.weight", {heads, dim}, weights.rla_norm);
  if (mixer.qk_scale) {
    reader.Vector(prefix + "rla.q_scale", {dim}, weights.q_scale);
    reader.Vector(prefix + "rla.k_scale", {dim}, weights.k_scale);
  }
  if (tokens > 0) {
    std::vector<float> keys, values;
    reader.Vector(prefix + "rla.init_k", {heads, tokens, dim}, keys);
    reader.Vector(prefix + "rla.init_v", {heads, tokens, dim}, values);
    weights.initial = LearnedSum(config, mixer, keys, values);
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

void AddMixer(WeightsReader& reader, const ModelConfig& config, const LayerParts& parts,
              const std::string& layer, MixerWeights& weights) {
  const int64_t d = config.d, inner = config.inner();
  const MixerConfig& mixer = weights.config = parts.mixer;
  const std::string prefix = layer + "mixer.";
  reader.Vector(layer + "mixer_norm.weight", {d}, weights.norm);
  reader.Matrix(prefix + "in_proj.weight", {MixerInputRows(config, mixer), d}, weights.in_proj);
  if (parts.gate_bias) reader.Vector(prefix + "gate_bias", {inner}, weights.gate_bias);
  if (mixer.qk_norm) {
    reader.Vector(prefix + "q_norm.weight", {config.head_dim}, weights.q_norm);
    reader.Vector(prefix + "k_norm.weight", {config.head_dim}, weights.k_norm);
  }
  if (mixer.positions == Positions::kAlibi) weights.alibi_slopes = AlibiSlopes(config.heads);
  if (mixer.kind == MixerKind::kRattention) {
    AddResidual(reader, config, mixer, prefix, weights.residual.emplace());
  }
  reader.Matrix(prefix + "out_proj.weight", {d, inner}, weights.out_proj);
}

}  // namespace recollect::model
