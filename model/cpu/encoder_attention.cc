// Attention of the chunk encoders: bidirectional, over a row that stands for the block or the query
// and the rows of its tokens.
#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/range_attention/range_attention.h"
#include "kernels/rope/rope.h"
#include "model/cpu/layers.h"

namespace recollect::model {

const float* RunEncoderAttention(kernels::OpContext& ctx, const LayerContext& layer,
                                 const EncoderLayerWeights& weights, const EncoderRope& rope,
                                 const float* x, int64_t count) {
  const ModelConfig& config = layer.config;
  const int64_t inner = config.inner();
  const int64_t stride = 3 * inner;
  float* normed = ctx.Floats(kNormed, count * config.d);
  float* projected = ctx.Floats(kProjected, count * stride);
  float* keys = ctx.Floats(kKeys, count * inner);
  float* values = ctx.Floats(kValues, count * inner);
  float* attended = ctx.Floats(kInner, count * inner);
  float* delta = ctx.Floats(kDelta, count * config.d);

  kernels::RmsNorm(ctx, x, weights.attn_norm.data(), layer.norm_eps, count, config.d, normed);
  kernels::Gemm(ctx, weights.attn_in_proj, normed, count, projected);
  for (const int64_t part : {int64_t{0}, inner}) {  // q, then k
    const kernels::RopeAngles angles{.base = config.rope_base, .pairs = rope.pairs};
    kernels::Rope(ctx, angles, 0, 1, stride, config.heads, config.head_dim, projected + part);
    kernels::Rope(ctx, angles, rope.second, count - 1, stride, config.heads, config.head_dim,
                  projected + stride + part);
  }
  if (layer.dtype == DType::kBf16) kernels::RoundToBf16(ctx, projected, count * stride);
  for (int64_t row = 0; row < count; ++row) {
    const float* k = projected + row * stride + inner;
    std::copy(k, k + inner, keys + row * inner);
    std::copy(k + inner, k + 2 * inner, values + row * inner);
  }
  kernels::RangeSet sets[kMaxChunkTokens + 1];
  for (int64_t row = 0; row < count; ++row) sets[row].ranges[0] = {0, count};
  kernels::RangeAttention(ctx, {config.heads, config.heads, config.head_dim}, projected, stride,
                          count, {kernels::KvSpan{keys, values}}, sets, attended);
  kernels::Gemm(ctx, weights.attn_out_proj, attended, count, delta);
  return delta;
}

}  // namespace recollect::model
