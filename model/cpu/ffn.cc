// FFN of RMS(x): SwiGLU and GEGLU, W_out (act(gate) * up) with gate, up = W_in RMS(x) and act SiLU
// or the exact GELU; or W_out gelu(W_in RMS(x)).
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"

namespace recollect::model {

const float* RunFfn(kernels::OpContext& ctx, const LayerContext& layer, const FfnWeights& weights,
                    const float* x, int64_t rows) {
  const ModelConfig& config = layer.config;
  const int64_t ffn = weights.out_proj.k();
  float* normed = ctx.Floats(kNormed, rows * config.d);
  float* projected = ctx.Floats(kProjected, rows * FfnInputRows(weights.kind, ffn));
  float* inner = ctx.Floats(kInner, rows * ffn);
  float* delta = ctx.Floats(kDelta, rows * config.d);
  kernels::RmsNorm(ctx, x, weights.norm.data(), layer.norm_eps, rows, config.d, normed);
  kernels::Gemm(ctx, weights.in_proj, normed, rows, projected);
  switch (weights.kind) {
    case FfnKind::kSwiGlu:
      kernels::SwiGlu(ctx, projected, rows, ffn, inner);
      break;
    case FfnKind::kGeGlu:
      kernels::GeGlu(ctx, projected, rows, ffn, inner);
      break;
    case FfnKind::kGelu:
      kernels::Gelu(ctx, projected, rows * ffn, inner);
      break;
  }
  kernels::Gemm(ctx, weights.out_proj, inner, rows, delta);
  return delta;
}

}  // namespace recollect::model
