// The linear branch of RAttention on a device (rattention_mixer.cc): features of queries as they
// are projected, sums S of positions that leave the window, norms by head.
#include "base/status.h"
#include "model/device/device_call.h"
#include "model/device/device_model.h"

namespace recollect::model {

// The runs' rows are already appended.
absl::Status DeviceModel::BuildLinear(int layer, std::span<const DeviceSegment> runs,
                                      CallTables& call) {
  const int64_t inner = config_.inner(), dim = config_.head_dim, kv_width = config_.kv_width();
  LinearTables& tables = call.mixers.back().linear;
  std::vector<DeviceResidualCache::Leaving> leaving;
  for (const DeviceSegment& run : runs) {
    leaving.push_back(run.state->layer(layer).residual->LeftBy(run.rows));
    tables.left += leaving.back().count;
  }
  const bool windowed = runs.front().state->layer(layer).residual->windowed();
  ASSIGN_OR_RETURN(tables.query_features, Floats(kQueryFeatures, call.rows * 2 * inner));
  ASSIGN_OR_RETURN(tables.key_features, Floats(kKeyFeatures, call.rows * 2 * kv_width));
  ASSIGN_OR_RETURN(tables.raw, Floats(kRawKeys, call.rows * kv_width));
  tables.linear = call.attended;
  if (windowed) {
    ASSIGN_OR_RETURN(tables.linear, Floats(kLinear, call.rows * inner));
  }
  std::vector<kernels::LinearAttentionSegment> segments;
  std::vector<kernels::DeviceCopy> copies;
  int64_t row = 0, left = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [raw, values, count] = leaving[i];
    if (count > 0) {
      copies.push_back(
          {raw, tables.raw + left * kv_width, count * kv_width * int64_t{sizeof(float)}});
    }
    segments.push_back({.q = tables.query_features + row * 2 * inner,
                        .keys = tables.key_features + left * 2 * kv_width,
                        .values = values,
                        .state = runs[i].state->layer(layer).carried_data(),
                        .out = tables.linear + row * inner,
                        .rows = runs[i].rows,
                        .entering = count});
    row += runs[i].rows;
    left += count;
  }
  const kernels::LinearAttentionShape shape = {config_.heads, config_.kv_heads,
                                               static_cast<int>(dim)};
  ASSIGN_OR_RETURN(tables.plan,
                   kernels::PlanLinearAttention(
                       {.segments = static_cast<int64_t>(segments.size()), .shape = shape}));
  RETURN_IF_ERROR(kernels::CheckLinearAttention(tables.plan, segments));
  tables.leaving = CopyTable::Add(call.tables, copies);
  tables.segments_at = call.tables.Add(segments);
  return absl::OkStatus();
}

// Of queries and keys that are not placed yet.
absl::Status DeviceModel::BeginLinear(const DeviceMixer& weights, const MixerConfig& mixer,
                                      const CallTables& call, const MixerTables& tables) {
  const kernels::RowSizes queries = {.rows = call.rows,
                                     .width = config_.head_dim,
                                     .heads = config_.heads,
                                     .stride = tables.fp32.stride};
  RETURN_IF_ERROR(device_.Run(kernels::FeaturesOp{.map = mixer.feature_map,
                                                  .sizes = queries,
                                                  .x = tables.fp32.Floats(0, 0),
                                                  .scale = weights.q_scale,
                                                  .features = tables.linear.query_features}));
  return tables.raw.Run(device_, call.tables);
}

// call.attended, which holds the window's part where there is one, becomes the sum of both.
absl::Status DeviceModel::AddLinear(const DeviceMixer& weights, const MixerConfig& mixer,
                                    const CallTables& call, const LinearTables& tables) {
  const int64_t dim = config_.head_dim;
  const kernels::RowSizes heads = {.rows = call.rows, .width = dim, .heads = config_.heads};
  RETURN_IF_ERROR(tables.leaving.Run(device_, call.tables));
  RETURN_IF_ERROR(device_.Run(
      kernels::FeaturesOp{.map = mixer.feature_map,
                          .sizes = {.rows = tables.left, .width = dim, .heads = config_.kv_heads},
                          .x = tables.raw,
                          .scale = weights.k_scale,
                          .features = tables.key_features}));
  RETURN_IF_ERROR(device_.Run(kernels::LinearAttentionOp{
      .plan = tables.plan,
      .segments = call.tables.At<kernels::LinearAttentionSegment>(tables.segments_at),
      .segment_count = tables.plan.sizes.segments,
      .initial = weights.initial}));
  RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{.sizes = heads,
                                                 .x = tables.linear,
                                                 .gain = weights.rla_norm,
                                                 .gain_by_head = true,
                                                 .eps = config_.head_norm_eps,
                                                 .y = {tables.linear}}));
  if (tables.linear == call.attended) return absl::OkStatus();
  RETURN_IF_ERROR(device_.Run(kernels::RmsNormOp{.sizes = heads,
                                                 .x = call.attended,
                                                 .gain = weights.swa_norm,
                                                 .gain_by_head = true,
                                                 .eps = config_.head_norm_eps,
                                                 .y = {call.attended}}));
  return device_.Run(kernels::AddOp{tables.linear, call.rows * config_.inner(), call.attended});
}

}  // namespace recollect::model
