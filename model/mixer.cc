// RAT+ local mixer (design 2.2): o, q, k, v, g = in_proj RMS(h); keys and values pass a gated
// recurrence, RoPE follows on q and the gated keys, each token attends to its window, the dilated
// positions and the initial ones, and sigmoid(o) gates the result before the output projection.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/gated_scan.h"
#include "kernels/gemm.h"
#include "kernels/range_attention.h"
#include "model/layers.h"

namespace recollect::model {
namespace {

// Attention of the rows over the heads of one cache; attended[rows, heads of the layer, head_dim].
void AttendLocal(kernels::OpContext& ctx, const ModelConfig& config, const LocalCache& cache,
                 const AttentionRows& rows, float* attended) {
  kernels::RangeSet sets[LayerState::kMaxAppend];
  for (int64_t row = 0; row < rows.count; ++row) sets[row] = cache.Ranges(rows.first + row);
  if (cache.heads() == config.heads) {
    kernels::RangeAttention(ctx, rows.q, rows.stride, rows.count, config.heads, config.head_dim,
                            cache.parts(), sets, attended);
    return;
  }
  const int64_t at = static_cast<int64_t>(cache.first_head()) * config.head_dim;
  const int64_t width = static_cast<int64_t>(cache.heads()) * config.head_dim;
  float* dense = ctx.Floats(kHeadRows, rows.count * width);
  kernels::RangeAttention(ctx, rows.q + at, rows.stride, rows.count, cache.heads(), config.head_dim,
                          cache.parts(), sets, dense);
  for (int64_t row = 0; row < rows.count; ++row) {
    std::copy_n(dense + row * width, width, attended + row * config.inner() + at);
  }
}

// One segment's rows of in_proj's output, [rows, 5 D], changed in place into gated, rotated keys.
void AdvanceSegment(kernels::OpContext& ctx, const LayerContext& layer, const MixerWeights& weights,
                    const Segment& segment, float* projected, float* attended) {
  const ModelConfig& config = layer.config;
  const int64_t inner = config.inner();
  const int64_t stride = 5 * inner;
  LayerState& state = *segment.state;
  float* q = projected + inner;
  float* k = projected + 2 * inner;
  float* v = projected + 3 * inner;
  const float* g = projected + 4 * inner;
  const int64_t first = state.length();
  if (config.recurrence) {
    const float* bias = weights.gate_bias.empty() ? nullptr : weights.gate_bias.data();
    kernels::GatedScan(ctx, g, bias, k, stride, segment.rows, inner, state.key_recurrence(), k,
                       stride);
    kernels::GatedScan(ctx, g, bias, v, stride, segment.rows, inner, state.value_recurrence(), v,
                       stride);
  }
  kernels::Rope(ctx, first, state.rope_base(), segment.rows, stride, config.heads, config.head_dim,
                q);
  kernels::Rope(ctx, first, state.rope_base(), segment.rows, stride, config.heads, config.head_dim,
                k);
  if (layer.dtype == DType::kBf16) {
    // q, k and v lie side by side in a row.
    for (int64_t row = 0; row < segment.rows; ++row) {
      kernels::RoundToBf16(ctx, q + row * stride, 3 * inner);
    }
  }
  state.Append(k, v, segment.rows, stride);
  const AttentionRows rows{q, stride, first, segment.rows};
  if (state.block_cache() != nullptr) {
    AttendBlocks(ctx, config, *state.block_cache(), rows, attended);
    return;
  }
  for (const LocalCache& cache : state.caches()) AttendLocal(ctx, config, cache, rows, attended);
}

}  // namespace

const float* RunMixer(kernels::OpContext& ctx, const LayerContext& layer,
                      const MixerWeights& weights, std::span<const Segment> segments,
                      const float* h) {
  const ModelConfig& config = layer.config;
  const int64_t inner = config.inner();
  int64_t rows = 0;
  for (const Segment& segment : segments) rows += segment.rows;
  float* normed = ctx.Floats(kNormed, rows * config.d);
  float* projected = ctx.Floats(kProjected, rows * 5 * inner);
  float* attended = ctx.Floats(kInner, rows * inner);
  float* delta = ctx.Floats(kDelta, rows * config.d);

  kernels::RmsNorm(ctx, h, weights.norm.data(), config.norm_eps, rows, config.d, normed);
  kernels::Gemm(ctx, weights.in_proj, normed, rows, projected);
  int64_t row = 0;
  for (const Segment& segment : segments) {
    AdvanceSegment(ctx, layer, weights, segment, projected + row * 5 * inner,
                   attended + row * inner);
    row += segment.rows;
  }
  kernels::SigmoidGate(ctx, projected, 5 * inner, attended, rows, inner, attended);
  kernels::Gemm(ctx, weights.out_proj, attended, rows, delta);
  return delta;
}

}  // namespace recollect::model
