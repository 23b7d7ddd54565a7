// What a mixer has that is made of its tensors or its config.
#include <cmath>

#include "kernels/cpu/op_context.h"
#include "kernels/linear_attention/linear_attention.h"
#include "model/weights/weights.h"

namespace recollect::model {
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

}  // namespace recollect::model
