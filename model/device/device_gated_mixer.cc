// The mixers with a gated recurrence on a device (gated_mixer.cc): RAT+ (design 2.2), and RAT,
// whose recurrence begins anew in every chunk.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {
namespace {

struct ScanTables {
  kernels::GatedScanPlan plan;
  int64_t segments = 0;
};

// The rows are already appended.
absl::StatusOr<ScanTables> BuildScan(const DeviceContext& ctx, const MixerRows& rows, int64_t chunk,
                                     DeviceCall& call) {
  const int64_t inner = ctx.config.inner();
  std::vector<kernels::GatedScanSegment> segments;
  int64_t row = 0, most_rows = 0;
  for (const DeviceSegment& run : call.runs) {
    const DeviceLayerState& state = run.state->layer(rows.layer);
    float *const k = rows.fp32.Floats(row, inner), *const v = k + inner;
    segments.push_back({.z = v + inner,
                        .x = {k, v},
                        .y = {k, v},
                        .state = {state.carried_data(), state.carried_data() + inner},
                        .rows = run.rows,
                        .first = state.length() - run.rows});
    row += run.rows;
    most_rows = std::max(most_rows, run.rows);
  }
  ScanTables scan;
  ASSIGN_OR_RETURN(scan.plan, kernels::PlanGatedScan({.segments = std::ssize(segments),
                                                      .max_rows = most_rows,
                                                      .channels = inner,
                                                      .inputs = 2,
                                                      .chunk = chunk},
                                                     ctx.device.multiprocessors()));
  RETURN_IF_ERROR(kernels::CheckGatedScan(scan.plan, segments));
  scan.segments = call.tables.Add(segments);
  return scan;
}

// chunk: after so many positions the recurrence begins anew; 0: never.
absl::StatusOr<RunRows> BuildGated(DeviceContext& ctx, int layer, int64_t chunk, DeviceCall& call) {
  const ModelConfig& config = ctx.config;
  ASSIGN_OR_RETURN(MixerRows rows, AppendRows(ctx, layer, config.inner(), config.heads, call));
  ScanTables scan;
  if (config.recurrence) {
    ASSIGN_OR_RETURN(scan, BuildScan(ctx, rows, chunk, call));
  }
  ASSIGN_OR_RETURN(LocalAttention attention, BuildLocalAttention(ctx, rows, call));
  return RunRows([&ctx, &call, rows, scan, attention = std::move(attention)]() -> absl::Status {
    const DeviceMixer& weights = ctx.layer(rows.layer).mixer;
    RETURN_IF_ERROR(rows.moves.Run(ctx.device, call.tables));
    if (ctx.config.recurrence) {
      RETURN_IF_ERROR(ctx.device.Run(
          kernels::GatedScanOp{.plan = scan.plan,
                               .segments = call.tables.At<kernels::GatedScanSegment>(scan.segments),
                               .segment_count = scan.plan.sizes.segments,
                               .bias = weights.gate_bias,
                               .stride = rows.fp32.stride,
                               .y_stride = rows.fp32.stride}));
    }
    RETURN_IF_ERROR(PlaceRows(ctx, rows, call));
    return AttendLocal(ctx, attention, rows, call);
  });
}

}  // namespace

absl::StatusOr<RunRows> BuildRatPlus(DeviceContext& ctx, int layer, DeviceCall& call) {
  return BuildGated(ctx, layer, 0, call);
}

absl::StatusOr<RunRows> BuildRat(DeviceContext& ctx, int layer, DeviceCall& call) {
  return BuildGated(ctx, layer, ctx.config.mixer(layer).chunk, call);
}

}  // namespace recollect::model
