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

#include "base/check.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

std::vector<Bf16> ToBf16(const float* values, int64_t count) {
  std::vector<Bf16> rounded(static_cast<size_t>(count));
  std::transform(values, values + count, rounded.begin(), Bf16::FromFloat);
  return rounded;
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

EncodedChunk CpuModel::EncodeChunk(kernels::OpContext& ctx, const float* h, int rows) const {
  RECOLLECT_CHECK(config().landmarks() && rows >= 1 && rows <= config().chunk_tokens);
  const ModelConfig& config = this->config();
  const EncoderWeights& weights = weights_->encoder;
  const int64_t d = config.d;
  const int64_t count = rows + 1;
  const bool at_end = config.landmark_at == LandmarkAt::kEnd;
  float* x = ctx.Floats(kRowsIn, count * d);
  float* landmark = at_end ? x + rows * d : x;
  const float* tokens = at_end ? x : x + d;
  std::copy(h, h + count * d, x);
  PlaceLandmark(ctx, config, weights, landmark);
  kernels::RmsNorm(ctx, x, weights.in_norm.data(), config.norm_eps, count, d, x);
  const float eps = config.encoder_norm_eps;
  RunEncoderLayers(ctx, {config, dtype(), eps}, weights.layers, {config.rope_pairs}, x, count);
  kernels::RmsNorm(ctx, x, weights.out_norm.data(), eps, count, d, x);
  return {.landmark_key = LandmarkKey(ctx, config, weights, landmark),
          .states = ToBf16(tokens, rows * d),
          .tokens = {},
          .rows = rows};
}

}  // namespace recollect::model
