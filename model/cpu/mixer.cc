// What every mixer has around it: norm and input projection, then, segment by segment, the mixer
// itself, then the output gate, where there is one, and the output projection.
#include "kernels/elementwise/elementwise.h"
#include "kernels/gemm/gemm.h"
#include "model/cpu/layers.h"

namespace recollect::model {
namespace {

AdvanceMixer* Advance(MixerKind kind) {
  switch (kind) {
    case MixerKind::kRatPlus:
      return AdvanceRatPlus;
    case MixerKind::kRat:
      return AdvanceRat;
    case MixerKind::kAttention:
      return AdvanceAttention;
    case MixerKind::kRattention:
      return AdvanceRattention;
  }
  return nullptr;
}

// y[rows, n] += x (up · down)ᵀ, where the mixer has a change.
void AddChange(kernels::OpContext& ctx, const LowRank* change, const float* x, int64_t rows,
               float* y) {
  if (change == nullptr) return;
  const int64_t n = change->up.n();
  float* low = ctx.Floats(kLow, rows * change->down.n());
  float* more = ctx.Floats(kChange, rows * n);
  kernels::Gemm(ctx, change->down, x, rows, low);
  kernels::Gemm(ctx, change->up, low, rows, more);
  kernels::Add(ctx, more, rows * n, y);
}

}  // namespace

const float* RunMixer(kernels::OpContext& ctx, const LayerContext& layer,
                      const MixerWeights& weights, std::span<const Segment> segments,
                      const float* h, const MixerChange* change) {
  const ModelConfig& config = layer.config;
  const MixerKind kind = weights.config.kind;
  const int64_t inner = config.inner();
  const int64_t width = MixerInputRows(config, weights.config);
  int64_t rows = 0;
  for (const Segment& segment : segments) rows += segment.rows;
  float* normed = ctx.Floats(kNormed, rows * config.d);
  float* projected = ctx.Floats(kProjected, rows * width);
  float* attended = ctx.Floats(kInner, rows * inner);
  float* delta = ctx.Floats(kDelta, rows * config.d);

  kernels::RmsNorm(ctx, h, weights.norm.data(), layer.norm_eps, rows, config.d, normed);
  kernels::Gemm(ctx, weights.in_proj, normed, rows, projected);
  AddChange(ctx, change != nullptr ? &change->in_proj : nullptr, normed, rows, projected);
  int64_t row = 0;
  for (const Segment& segment : segments) {
    Advance(kind)(ctx, layer, weights, segment, projected + row * width, attended + row * inner);
    row += segment.rows;
  }
  if (IsGated(kind)) {  // its logits are the first rows of in_proj
    kernels::SigmoidGate(ctx, projected, width, attended, rows, inner, attended);
  }
  kernels::Gemm(ctx, weights.out_proj, attended, rows, delta);
  AddChange(ctx, change != nullptr ? &change->out_proj : nullptr, attended, rows, delta);
  return delta;
}

}  // namespace recollect::model
