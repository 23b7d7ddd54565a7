#include "model/device/device_layers.h"

#include <numeric>
#include <utility>

#include "base/status.h"

namespace recollect::model {

using enum DeviceScratch;
using kernels::DeviceRows;

namespace {

// A sequence's rows of a call: its segments in one.
std::vector<DeviceSegment> RunsOf(std::span<const DeviceSegment> segments) {
  std::vector<DeviceSegment> runs;
  for (const DeviceSegment& segment : segments) {
    if (runs.empty() || runs.back().state != segment.state) {
      runs.push_back({.state = segment.state});
    }
    runs.back().rows += segment.rows;
  }
  return runs;
}

// RoPE's factors of the call's rows in these layers.
void BuildRopes(DeviceContext& ctx, int first, int count, DeviceCall& call) {
  std::map<int64_t, std::pair<std::vector<float>, std::vector<float>>> factors;  // by step
  for (int layer = first; layer < first + count; ++layer) {
    const MixerConfig& mixer = ctx.config.mixer(layer);
    if (mixer.positions == Positions::kRope) factors[RopeStep(mixer)];
  }
  for (const DeviceSegment& run : call.runs) {
    std::vector<int64_t> positions(static_cast<size_t>(run.rows));
    std::iota(positions.begin(), positions.end(), run.state->layer(first).length());
    for (auto& [step, of_step] : factors) {
      AppendRopeFactors(ctx, run.state->rope_base(), step, positions, of_step.first,
                        of_step.second);
    }
  }
  for (const auto& [step, of_step] : factors) {
    call.ropes[step] = {step, call.tables.Add(of_step.first), call.tables.Add(of_step.second)};
  }
}

absl::Status PlaceCall(DeviceContext& ctx, int first, int count, DeviceCall& call) {
  const int64_t inner = ctx.config.inner();
  int64_t widest = 2 * ctx.config.ffn, widest_qkv = 0;
  for (int layer = first; layer < first + count; ++layer) {
    const MixerConfig& mixer = ctx.config.mixer(layer);
    const int64_t width = ProjectedWidth(ctx.config, mixer);
    widest = std::max(widest, width);
    widest_qkv = std::max(widest_qkv, IsGated(mixer.kind) ? 3 * inner : width);
  }
  ASSIGN_OR_RETURN(call.projected, ctx.Floats(kProjected, call.rows * widest));
  if (ctx.dtype == DType::kBf16) {
    ASSIGN_OR_RETURN(void* const memory,
                     ctx.Bytes(kQkv, call.rows * widest_qkv * int64_t{sizeof(Bf16)}));
    call.converted = static_cast<std::byte*>(memory);
  }
  ASSIGN_OR_RETURN(call.attended, ctx.Floats(kAttended, call.rows * inner));
  ASSIGN_OR_RETURN(call.some_heads, ctx.Floats(kSomeHeads, call.rows * inner));
  return absl::OkStatus();
}

absl::Status RunLayer(DeviceContext& ctx, int layer, const RunRows& mixer, const GcaTables& gca,
                      const DeviceCall& call, float* h) {
  const DeviceLayer& weights = ctx.layer(layer);
  const int64_t numbers = call.rows * ctx.config.d;
  RETURN_IF_ERROR(RunMixer(ctx, layer, mixer, call, h));
  const float* ffn_input = h;
  if (weights.gca && gca.count > 0) {
    float* sum = h;
    if (ctx.config.gca_residual == GcaResidual::kBypass) {
      // The memory reaches the residual stream through the FFN only.
      ASSIGN_OR_RETURN(sum, ctx.Floats(kSum, numbers));
      RETURN_IF_ERROR(ctx.device.Run(kernels::ZeroOp{sum, numbers * int64_t{sizeof(float)}}));
      RETURN_IF_ERROR(ctx.device.Run(kernels::AddOp{h, numbers, sum}));
      ffn_input = sum;
    }
    RETURN_IF_ERROR(RunGca(ctx, *weights.gca, gca, call, h, sum));
  }
  return RunFfn(ctx, weights.ffn, ctx.config.parts(layer).ffn, ctx.config.norm_eps, ffn_input,
                call.rows, h);
}

}  // namespace

void AppendRopeFactors(DeviceContext& ctx, double base, int64_t step,
                       const std::vector<int64_t>& positions, std::vector<float>& cosines,
                       std::vector<float>& sines) {
  const size_t at = cosines.size();
  const size_t count = positions.size() * static_cast<size_t>(ctx.config.head_dim / 2);
  cosines.resize(at + count);
  sines.resize(at + count);
  kernels::RopeFactors(ctx.host,
                       {.base = base,
                        .pairs = ctx.config.rope_pairs,
                        .step = step,
                        .divisors = ctx.config.rope_divisors},
                       positions, ctx.config.head_dim, cosines.data() + at, sines.data() + at);
}

absl::Status DeviceModel::RunLayers(int first, int count, std::span<const DeviceSegment> segments,
                                    float* h) {
  DeviceContext& ctx = *ctx_;
  DeviceCall call;
  call.runs = RunsOf(segments);
  for (const DeviceSegment& run : call.runs) {
    RETURN_IF_ERROR(run.state->Begin(ctx.device));
    call.rows += run.rows;
  }
  if (call.rows == 0) return absl::OkStatus();
  BuildRopes(ctx, first, count, call);
  RETURN_IF_ERROR(PlaceCall(ctx, first, count, call));
  std::vector<RunRows> mixers;
  for (int layer = first; layer < first + count; ++layer) {
    BuildMixer* const build = BuildOf(ctx.config.mixer(layer).kind);
    ASSIGN_OR_RETURN(mixers.emplace_back(), build(ctx, layer, call));
  }
  ASSIGN_OR_RETURN(const GcaTables gca, BuildGca(ctx, segments, call));
  RETURN_IF_ERROR(ctx.Upload(call.tables));
  return ctx.device.Record([&]() -> absl::Status {
    for (int i = 0; i < count; ++i) {
      RETURN_IF_ERROR(RunLayer(ctx, first + i, mixers[static_cast<size_t>(i)], gca, call, h));
    }
    return absl::OkStatus();
  });
}

absl::Status RunFfn(DeviceContext& ctx, const DeviceFfn& weights, FfnKind kind, float eps,
                    const float* x, int64_t rows, float* h) {
  const int64_t width = ctx.config.ffn;
  ASSIGN_OR_RETURN(const DeviceRows normed, ctx.Operand(kNormed, rows * ctx.config.d));
  ASSIGN_OR_RETURN(float* const projected, ctx.Floats(kProjected, rows * weights.in_proj.n));
  ASSIGN_OR_RETURN(const DeviceRows inner, ctx.Operand(kInner, rows * width));
  RETURN_IF_ERROR(ctx.RmsNorm(x, rows, weights.norm, eps, normed));
  RETURN_IF_ERROR(ctx.Product(weights.in_proj, normed, rows, projected));
  switch (kind) {
    case FfnKind::kSwiGlu:
      RETURN_IF_ERROR(ctx.device.Run(kernels::SwiGluOp{projected, rows, width, inner}));
      break;
    case FfnKind::kGeGlu:
      RETURN_IF_ERROR(ctx.device.Run(kernels::GeGluOp{projected, rows, width, inner}));
      break;
    case FfnKind::kGelu:
      RETURN_IF_ERROR(ctx.device.Run(kernels::GeluOp{projected, rows * width, inner}));
      break;
  }
  return ctx.Product(weights.out_proj, inner, rows, h, /*add=*/true);
}

}  // namespace recollect::model
