// Softmax attention (docs/model-format.md, `attention`): q, k, v = in_proj RMS(h); RoPE at the
// token's position, or ALiBi's bias -slope_h (t - p) on the scores, or neither; then the norm by
// head of q and k where there is one; each token attends to its window. No recurrence, no output
// gate.
#include "kernels/elementwise/elementwise.h"
#include "kernels/rope/rope.h"
#include "model/cpu/layers.h"

namespace recollect::model {

void PlaceHeads(kernels::OpContext& ctx, const LayerContext& layer, const MixerConfig& mixer,
                const Segment& segment, int64_t stride, int heads, const std::vector<float>& gain,
                float* x) {
  const ModelConfig& config = layer.config;
  if (mixer.positions == Positions::kRope) {
    kernels::Rope(ctx,
                  {.base = segment.state->rope_base(),
                   .pairs = config.rope_pairs,
                   .divisors = config.rope_divisors},
                  segment.state->length(), segment.rows, stride, heads, config.head_dim, x);
  }
  if (!mixer.qk_norm) return;
  for (int64_t row = 0; row < segment.rows; ++row, x += stride) {
    kernels::RmsNorm(ctx, x, gain.data(), config.head_norm_eps, heads, config.head_dim, x);
  }
}

void AdvanceAttention(kernels::OpContext& ctx, const LayerContext& layer,
                      const MixerWeights& weights, const Segment& segment, float* projected,
                      float* attended) {
  const ModelConfig& config = layer.config;
  const int64_t stride = config.inner() + 2 * config.kv_width();
  LayerState& state = *segment.state;
  float* q = projected;
  float* k = q + config.inner();
  const float* v = k + config.kv_width();
  const int64_t first = state.length();
  PlaceHeads(ctx, layer, weights.config, segment, stride, config.heads, weights.q_norm, q);
  PlaceHeads(ctx, layer, weights.config, segment, stride, config.kv_heads, weights.k_norm, k);
  if (layer.dtype != DType::kFloat32) {
    kernels::RoundToBf16(ctx, projected, segment.rows * stride);  // q, k and v are all there is
  }
  state.Append(k, v, segment.rows, stride);
  AttendState(ctx, config, state, {q, stride, first, segment.rows, OrNull(weights.alibi_slopes)},
              attended);
}

}  // namespace recollect::model
