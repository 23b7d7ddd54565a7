// RAttention: softmax attention over a window and, for everything before it, linear attention with
// the same q, k, v, unplaced:
//   mixer = RMS_swa(window) + RMS_rla(φ(q)ᵀ (S + S_0))       norms by head
// Position t - W - 1 leaves the window and enters S before S is read, so that window and S hold
// every position once.
#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/linear_attention/linear_attention.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

// In place, each head of x[rows, heads, head_dim] with its own gain[heads, head_dim].
void NormHeads(kernels::OpContext& ctx, const ModelConfig& config, const std::vector<float>& gain,
               int64_t rows, float* x) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int head = 0; head < config.heads; ++head, x += config.head_dim) {
      kernels::RmsNorm(ctx, x, gain.data() + int64_t{head} * config.head_dim, config.head_norm_eps,
                       1, config.head_dim, x);
    }
  }
}

// linear[rows, heads, head_dim] for the rows appended last, whose φ(q) is given; S moves on.
void ReadSum(kernels::OpContext& ctx, const ModelConfig& config, const MixerWeights& weights,
             const float* query_features, int64_t rows, ResidualCache& cache, float* linear) {
  const int dim = config.head_dim;
  const ResidualCache::Leaving leaving = cache.LeftBy(rows);
  float* features = ctx.Floats(kKeyFeatures, leaving.count * 2 * config.kv_width());
  kernels::Features(ctx, weights.config.feature_map, leaving.raw, config.kv_width(), leaving.count,
                    config.kv_heads, dim, OrNull(weights.residual->k_scale), features);
  kernels::LinearAttention(ctx, {config.heads, config.kv_heads, dim}, query_features, rows,
                           {features, leaving.values, leaving.count},
                           OrNull(weights.residual->initial), cache.sum(), linear);
}

}  // namespace

void AdvanceRattention(kernels::OpContext& ctx, const LayerContext& layer,
                       const MixerWeights& weights, const Segment& segment, float* projected,
                       float* attended) {
  const ModelConfig& config = layer.config;
  const MixerConfig& mixer = weights.config;
  const int64_t inner = config.inner(), kv_width = config.kv_width(), rows = segment.rows;
  const int64_t stride = inner + 2 * kv_width;
  LayerState& state = *segment.state;
  ResidualCache& cache = *state.residual_cache();
  const int64_t first = state.length();
  const bool windowed = mixer.window >= 0;
  float* q = projected;
  float* k = q + inner;
  const float* v = k + kv_width;

  float* query_features = ctx.Floats(kQueryFeatures, rows * 2 * inner);
  kernels::Features(ctx, mixer.feature_map, q, stride, rows, config.heads, config.head_dim,
                    OrNull(weights.residual->q_scale), query_features);
  float* raw = ctx.Floats(kKeys, rows * kv_width);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(k + row * stride, kv_width, raw + row * kv_width);
  }
  if (windowed) {
    PlaceHeads(ctx, layer, mixer, segment, stride, config.heads, weights.q_norm, q);
    PlaceHeads(ctx, layer, mixer, segment, stride, config.kv_heads, weights.k_norm, k);
  }
  if (layer.dtype == DType::kBf16) {
    kernels::RoundToBf16(ctx, projected, rows * stride);  // q, k and v are all there is
    kernels::RoundToBf16(ctx, raw, rows * kv_width);
  }
  cache.Append(k, raw, v, rows, stride);
  float* linear = windowed ? ctx.Floats(kLinear, rows * inner) : attended;
  ReadSum(ctx, config, weights, query_features, rows, cache, linear);
  NormHeads(ctx, config, weights.residual->rla_norm, rows, linear);
  if (!windowed) return;
  AttendState(ctx, config, state, {q, stride, first, rows}, attended);
  NormHeads(ctx, config, weights.residual->swa_norm, rows, attended);
  kernels::Add(ctx, linear, rows * inner, attended);
}

}  // namespace recollect::model
