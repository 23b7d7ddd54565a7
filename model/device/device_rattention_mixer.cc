// RAttention on a device (rattention_mixer.cc): softmax attention over the window, and beside it a
// linear branch: features of queries as they are projected, sums S of positions that leave the
// window, norms by head.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {

using enum DeviceScratch;

namespace {

struct LinearTables {
  kernels::LinearAttentionPlan plan;
  int64_t segments = 0;
  CopyTable leaving;  // raw keys of positions that enter S, to `raw`
  int64_t left = 0;   // how many
  float *query_features = nullptr, *key_features = nullptr, *raw = nullptr;
  float* linear = nullptr;  // call.attended where there is no window
};

// Positions that left the window during the latest Append of `rows` rows, as ResidualCache::LeftBy.
struct LeavingRows {
  const float* raw = nullptr;
  const float* values = nullptr;
  int64_t count = 0;
};

LeavingRows LeftBy(const DeviceCache& cache, int64_t window, int64_t rows) {
  const int64_t left = std::max<int64_t>(cache.length() - window - 1, 0);  // so far
  const int64_t count = std::min(rows, left);
  if (count == 0) return {};
  const auto at = [&](int plane) {
    return static_cast<const float*>(cache.InWindow(plane, left - count));
  };
  return {at(cache.planes() - 2), at(cache.planes() - 1), count};
}

// The rows are already appended.
absl::StatusOr<LinearTables> BuildLinear(DeviceContext& ctx, int layer, DeviceCall& call) {
  const ModelConfig& config = ctx.config;
  const int64_t inner = config.inner(), kv_width = config.kv_width();
  LinearTables tables;
  const int64_t window = config.mixer(layer).window;
  std::vector<LeavingRows> leaving;
  for (const DeviceSegment& run : call.runs) {
    leaving.push_back(LeftBy(run.state->layer(layer).caches.front(), window, run.rows));
    tables.left += leaving.back().count;
  }
  ASSIGN_OR_RETURN(tables.query_features, ctx.Floats(kQueryFeatures, call.rows * 2 * inner));
  ASSIGN_OR_RETURN(tables.key_features, ctx.Floats(kKeyFeatures, call.rows * 2 * kv_width));
  ASSIGN_OR_RETURN(tables.raw, ctx.Floats(kRawKeys, call.rows * kv_width));
  tables.linear = call.attended;
  if (window >= 0) {
    ASSIGN_OR_RETURN(tables.linear, ctx.Floats(kLinear, call.rows * inner));
  }
  std::vector<kernels::LinearAttentionSegment> segments;
  std::vector<kernels::DeviceCopy> copies;
  int64_t row = 0, left = 0;
  for (size_t i = 0; i < call.runs.size(); ++i) {
    const auto [raw, values, count] = leaving[i];
    if (count > 0) {
      copies.push_back(
          {raw, tables.raw + left * kv_width, count * kv_width * int64_t{sizeof(float)}});
    }
    segments.push_back({.q = tables.query_features + row * 2 * inner,
                        .keys = tables.key_features + left * 2 * kv_width,
                        .values = values,
                        .state = call.runs[i].state->layer(layer).carried_data(),
                        .out = tables.linear + row * inner,
                        .rows = call.runs[i].rows,
                        .entering = count});
    row += call.runs[i].rows;
    left += count;
  }
  ASSIGN_OR_RETURN(tables.plan, kernels::PlanLinearAttention(
                                    {.segments = std::ssize(segments),
                                     .shape = {config.heads, config.kv_heads, config.head_dim}}));
  RETURN_IF_ERROR(kernels::CheckLinearAttention(tables.plan, segments));
  tables.leaving = CopyTable::Add(call.tables, copies);
  tables.segments = call.tables.Add(segments);
  return tables;
}

// Of queries and keys that are not placed yet.
absl::Status BeginLinear(DeviceContext& ctx, const MixerRows& rows, const LinearTables& tables,
                         const DeviceMixer& weights, const DeviceCall& call) {
  RETURN_IF_ERROR(
      ctx.device.Run(kernels::FeaturesOp{.map = ctx.config.mixer(rows.layer).feature_map,
                                         .sizes = {.rows = call.rows,
                                                   .width = ctx.config.head_dim,
                                                   .heads = ctx.config.heads,
                                                   .stride = rows.fp32.stride},
                                         .x = rows.fp32.Floats(0, 0),
                                         .scale = weights.residual->q_scale,
                                         .features = tables.query_features}));
  return rows.raw.Run(ctx.device, call.tables);
}

// call.attended, which holds the window's part where there is one, becomes the sum of both.
absl::Status AddLinear(DeviceContext& ctx, const MixerRows& rows, const LinearTables& tables,
                       const DeviceMixer& weights, const DeviceCall& call) {
  const ModelConfig& config = ctx.config;
  const int64_t dim = config.head_dim;
  const auto norm = [&](float* x, const float* gain) {
    return ctx.device.Run(
        kernels::RmsNormOp{.sizes = {.rows = call.rows, .width = dim, .heads = config.heads},
                           .x = x,
                           .gain = gain,
                           .gain_by_head = true,
                           .eps = config.head_norm_eps,
                           .y = {x}});
  };
  RETURN_IF_ERROR(tables.leaving.Run(ctx.device, call.tables));
  RETURN_IF_ERROR(ctx.device.Run(
      kernels::FeaturesOp{.map = config.mixer(rows.layer).feature_map,
                          .sizes = {.rows = tables.left, .width = dim, .heads = config.kv_heads},
                          .x = tables.raw,
                          .scale = weights.residual->k_scale,
                          .features = tables.key_features}));
  RETURN_IF_ERROR(ctx.device.Run(kernels::LinearAttentionOp{
      .plan = tables.plan,
      .segments = call.tables.At<kernels::LinearAttentionSegment>(tables.segments),
      .segment_count = tables.plan.sizes.segments,
      .initial = weights.residual->initial}));
  RETURN_IF_ERROR(norm(tables.linear, weights.residual->rla_norm));
  if (tables.linear == call.attended) return absl::OkStatus();
  RETURN_IF_ERROR(norm(call.attended, weights.residual->swa_norm));
  return ctx.device.Run(kernels::AddOp{tables.linear, call.rows * config.inner(), call.attended});
}

}  // namespace

absl::StatusOr<RunRows> BuildRattention(DeviceContext& ctx, int layer, DeviceCall& call) {
  ASSIGN_OR_RETURN(MixerRows rows, AppendRows(ctx, layer, 0, ctx.config.kv_heads, call));
  ASSIGN_OR_RETURN(LinearTables linear, BuildLinear(ctx, layer, call));
  ASSIGN_OR_RETURN(LocalAttention attention, BuildLocalAttention(ctx, rows, call));
  return RunRows([&ctx, &call, rows, linear, attention = std::move(attention)]() -> absl::Status {
    const DeviceMixer& weights = ctx.layer(rows.layer).mixer;
    RETURN_IF_ERROR(rows.moves.Run(ctx.device, call.tables));
    RETURN_IF_ERROR(BeginLinear(ctx, rows, linear, weights, call));
    RETURN_IF_ERROR(PlaceRows(ctx, rows, call));
    RETURN_IF_ERROR(AttendLocal(ctx, attention, rows, call));
    return AddLinear(ctx, rows, linear, weights, call);
  });
}

}  // namespace recollect::model
