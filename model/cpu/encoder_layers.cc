// Layers of the chunk encoders. Attention is bidirectional, over a row that stands for the block or
// the query and the rows of its tokens. Where products are not in fp32, keys and values are in
// bf16, and attention multiplies pairs of bf16 numbers where the CPU can, as over a layer's cache.
#include <algorithm>

#include "kernels/cpu/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "kernels/range_attention/range_attention.h"
#include "kernels/rope/rope.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

// q, k and v of some rows: [count, 3, heads, head_dim].
struct Projected {
  float* q;
  int64_t count;
  int64_t inner;  // heads * head_dim

  int64_t stride() const { return 3 * inner; }
};

void AttendFp32(kernels::OpContext& ctx, const kernels::RangeShape& shape, const Projected& rows,
                const kernels::RangeSet* sets, float* attended) {
  float* keys = ctx.Floats(kKeys, rows.count * rows.inner);
  float* values = ctx.Floats(kValues, rows.count * rows.inner);
  for (int64_t row = 0; row < rows.count; ++row) {
    const float* k = rows.q + row * rows.stride() + rows.inner;
    std::copy_n(k, rows.inner, keys + row * rows.inner);
    std::copy_n(k + rows.inner, rows.inner, values + row * rows.inner);
  }
  kernels::RangeAttention(ctx, shape, rows.q, rows.stride(), rows.count,
                          {kernels::KvSpan{keys, values}}, sets, attended);
}

// Rounds q in place.
void AttendBf16(kernels::OpContext& ctx, const kernels::RangeShape& shape, const Projected& rows,
                const kernels::RangeSet* sets, float* attended) {
  const auto room = [&](const kernels::ScratchName& name) {
    return reinterpret_cast<Bf16*>(ctx.Floats(name, (rows.count * rows.inner + 1) / 2));
  };
  Bf16* keys = room(kKeys);
  Bf16* values = room(kValues);
  for (int64_t row = 0; row < rows.count; ++row) {
    float* q = rows.q + row * rows.stride();
    kernels::RoundToBf16(ctx, q, rows.inner);
    kernels::ConvertToBf16(ctx, q + rows.inner, rows.inner, keys + row * rows.inner);
    kernels::ConvertToBf16(ctx, q + 2 * rows.inner, rows.inner, values + row * rows.inner);
  }
  kernels::RangeAttentionOfBf16(ctx, shape, rows.q, rows.stride(), rows.count,
                                {kernels::Bf16KvSpan{keys, values, 0}}, sets, attended);
}

// kDelta[count, d] = attention of RMS(x) over all count rows.
const float* RunEncoderAttention(kernels::OpContext& ctx, const LayerContext& layer,
                                 const EncoderLayerWeights& weights, const EncoderRope& rope,
                                 const float* x, int64_t count) {
  const ModelConfig& config = layer.config;
  const int64_t inner = config.inner();
  const int64_t stride = 3 * inner;
  float* normed = ctx.Floats(kNormed, count * config.d);
  float* projected = ctx.Floats(kProjected, count * stride);
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
  kernels::RangeSet sets[kMaxChunkTokens + 1];
  for (int64_t row = 0; row < count; ++row) sets[row].ranges[0] = {0, count};
  auto* attend = layer.dtype == DType::kFloat32 ? &AttendFp32 : &AttendBf16;
  attend(ctx, {config.heads, config.heads, config.head_dim}, {projected, count, inner}, sets,
         attended);
  kernels::Gemm(ctx, weights.attn_out_proj, attended, count, delta);
  return delta;
}

}  // namespace

void RunEncoderLayers(kernels::OpContext& ctx, const LayerContext& layer,
                      const std::vector<EncoderLayerWeights>& layers, const EncoderRope& rope,
                      float* x, int64_t count) {
  const int64_t numbers = count * layer.config.d;
  for (const EncoderLayerWeights& weights : layers) {
    kernels::Add(ctx, RunEncoderAttention(ctx, layer, weights, rope, x, count), numbers, x);
    kernels::Add(ctx, RunFfn(ctx, layer, weights.ffn, x, count), numbers, x);
  }
}

}  // namespace recollect::model
