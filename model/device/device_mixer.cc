// What every mixer has around it (mixer.cc): norm and input projection, then the mixer itself, then
// the output gate, where there is one, and the output projection.
#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {

using enum DeviceScratch;
using kernels::DeviceRows;

BuildMixer* BuildOf(MixerKind kind) {
  switch (kind) {
    case MixerKind::kRatPlus:
      return BuildRatPlus;
    case MixerKind::kRat:
      return BuildRat;
    case MixerKind::kAttention:
      return BuildAttention;
    case MixerKind::kRattention:
      return BuildRattention;
  }
  return nullptr;
}

int64_t ProjectedWidth(const ModelConfig& config, const MixerConfig& mixer) {
  return IsGated(mixer.kind) ? 5 * config.inner() : config.inner() + 2 * config.kv_width();
}

absl::Status RunMixer(DeviceContext& ctx, int layer, const RunRows& run, const DeviceCall& call,
                      float* h) {
  const DeviceMixer& weights = ctx.layer(layer).mixer;
  const int64_t inner = ctx.config.inner(), rows = call.rows;
  ASSIGN_OR_RETURN(const DeviceRows normed, ctx.Operand(kNormed, rows * ctx.config.d));
  RETURN_IF_ERROR(ctx.RmsNorm(h, rows, weights.norm, ctx.config.norm_eps, normed));
  RETURN_IF_ERROR(ctx.Product(weights.in_proj, normed, rows, call.projected));
  RETURN_IF_ERROR(run());
  if (!IsGated(ctx.config.mixer(layer).kind)) {
    ASSIGN_OR_RETURN(const DeviceRows operand, ctx.AsOperand(kInner, call.attended, rows * inner));
    return ctx.Product(weights.out_proj, operand, rows, h, /*add=*/true);
  }
  ASSIGN_OR_RETURN(const DeviceRows gated, ctx.Operand(kInner, rows * inner));
  RETURN_IF_ERROR(ctx.device.Run(kernels::SigmoidGateOp{.gate = call.projected,
                                                        .gate_stride = weights.in_proj.n,
                                                        .x = call.attended,
                                                        .rows = rows,
                                                        .width = inner,
                                                        .y = gated}));
  return ctx.Product(weights.out_proj, gated, rows, h, /*add=*/true);
}

}  // namespace recollect::model
