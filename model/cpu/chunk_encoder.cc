// Chunk encoder (design 2.3): rows [cls, h_1 .. h_n] of a closed chunk through bidirectional
// pre-norm Transformer layers. Row 0 becomes the landmark, whose projection is the key κ that
// queries are compared with; rows 1 .. n become the chunk states E. Rows that do not exist are
// simply not there, which equals masking them. With encoder_carry row 0 also knows what the
// block's landmark has read, or the first token could not tell what it goes on with
// (docs/decisions/0007).
//
// DRT as published differs by switches of the config: the landmark may be the block's last row, be
// read as it stands in the residual stream, with no learned row in its place, and be the key
// without a projection; norms inside the encoder may have an eps of their own.
#include <algorithm>

#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/range_attention/range_attention.h"
#include "kernels/rope/rope.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

std::vector<Bf16> ToBf16(const float* values, int64_t count) {
  std::vector<Bf16> rounded(static_cast<size_t>(count));
  std::transform(values, values + count, rounded.begin(), Bf16::FromFloat);
  return rounded;
}

// kDelta[count, d] = attention of RMS(x) over all count rows; RoPE at the row's index.
const float* RunAttention(kernels::OpContext& ctx, const LayerContext& layer,
                          const EncoderLayerWeights& weights, const float* x, int64_t count) {
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
    kernels::Rope(ctx, {.base = config.rope_base, .pairs = config.rope_pairs}, 0, count, stride,
                  config.heads, config.head_dim, projected + part);
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

// Puts what stands for the landmark into its row of the encoder's input.
void PlaceLandmark(kernels::OpContext& ctx, const ModelConfig& config,
                   const EncoderWeights& weights, float* row) {
  if (config.landmark_row == LandmarkRow::kStream) return;  // it is there
  if (!weights.carry_proj) {
    std::copy(weights.cls.begin(), weights.cls.end(), row);
    return;
  }
  kernels::RmsNorm(ctx, row, nullptr, config.norm_eps, 1, config.d, row);
  float* carried = ctx.Floats(kDelta, config.d);
  kernels::Gemm(ctx, *weights.carry_proj, row, 1, carried);
  std::copy_n(carried, config.d, row);
  kernels::Add(ctx, weights.cls.data(), config.d, row);
}

// κ of the landmark's output row.
std::vector<Bf16> LandmarkKey(kernels::OpContext& ctx, const ModelConfig& config,
                              const EncoderWeights& weights, const float* landmark) {
  if (!weights.landmark_proj) return ToBf16(landmark, config.d);
  float* key = ctx.Floats(kProjected, config.d_r);
  kernels::Gemm(ctx, *weights.landmark_proj, landmark, 1, key);
  kernels::RmsNorm(ctx, key, nullptr, config.norm_eps, 1, config.d_r, key);
  return ToBf16(key, config.d_r);
}

}  // namespace

EncodedChunk RunChunkEncoder(kernels::OpContext& ctx, const LayerContext& layer,
                             const EncoderWeights& weights, const float* h, int rows) {
  const ModelConfig& config = layer.config;
  const int64_t d = config.d;
  const int64_t count = rows + 1;
  const bool at_end = config.landmark_at == LandmarkAt::kEnd;
  float* x = ctx.Floats(kRowsIn, count * d);
  float* landmark = at_end ? x + rows * d : x;
  const float* tokens = at_end ? x : x + d;
  std::copy(h, h + count * d, x);
  PlaceLandmark(ctx, config, weights, landmark);
  kernels::RmsNorm(ctx, x, weights.in_norm.data(), config.norm_eps, count, d, x);
  const LayerContext inside{config, layer.dtype, config.encoder_norm_eps};
  for (const EncoderLayerWeights& encoder_layer : weights.layers) {
    kernels::Add(ctx, RunAttention(ctx, inside, encoder_layer, x, count), count * d, x);
    kernels::Add(ctx, RunFfn(ctx, inside, encoder_layer.ffn, x, count), count * d, x);
  }
  kernels::RmsNorm(ctx, x, weights.out_norm.data(), inside.norm_eps, count, d, x);
  return {.landmark_key = LandmarkKey(ctx, config, weights, landmark),
          .states = ToBf16(tokens, rows * d),
          .tokens = {},
          .rows = rows};
}

}  // namespace recollect::model
