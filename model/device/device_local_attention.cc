// Attention of rows over what their sequences keep, on a device: over the entries of caches
// (device_attention.cc), or where queries choose blocks (device_blocks.cc).
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {
namespace {

// Whether rows of both can be attended together: the same heads share a pattern, or all heads
// choose blocks in the same way.
bool AttendAlike(const DeviceLayerState& a, const DeviceLayerState& b) {
  if (a.blocks && b.blocks) {
    return a.blocks->choice() == b.blocks->choice() && a.blocks->patterns() == b.blocks->patterns();
  }
  const auto same_heads = [](const DeviceCache& x, const DeviceCache& y) {
    return x.heads() == y.heads();
  };
  return a.cached == b.cached && a.blocks.has_value() == b.blocks.has_value() &&
         std::equal(a.caches.begin(), a.caches.end(), b.caches.begin(), b.caches.end(), same_heads);
}

// Some heads of neighbouring rows that begin at `first_row` of the call.
RowsAttention BuildHeads(const ModelConfig& config, const AttendedRows& attended,
                         const AttendedHeads& heads, int64_t first_row, DeviceCall& call) {
  RowsAttention attention =
      BuildRows(config, attended, heads, int64_t{heads.kv_heads} * config.head_dim, call.tables);
  attention.first_row = first_row;
  if (heads.heads == config.heads) return attention;
  // They come out dense, and go to their places.
  const int64_t width = int64_t{heads.heads} * config.head_dim;
  std::vector<kernels::DeviceCopy> places;
  float* to = call.attended + first_row * config.inner() + int64_t{heads.first} * config.head_dim;
  for (int64_t i = 0; i < std::ssize(attended.sets); ++i, to += config.inner()) {
    places.push_back({call.some_heads + i * width, to, width * int64_t{sizeof(float)}});
  }
  attention.places = CopyTable::Add(call.tables, places);
  return attention;
}

}  // namespace

absl::StatusOr<LocalAttention> BuildLocalAttention(const DeviceContext& ctx, const MixerRows& rows,
                                                   DeviceCall& call) {
  LocalAttention local;
  const std::span<const DeviceSegment> runs = call.runs;
  const auto state_of = [&](const DeviceSegment& run) -> const DeviceLayerState& {
    return run.state->layer(rows.layer);
  };
  // Neighbouring sequences are attended together.
  int64_t row = 0;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    const DeviceLayerState& like = state_of(runs[begin]);
    const int64_t first_row = row;
    for (; end < runs.size() && AttendAlike(state_of(runs[end]), like); ++end) {
      row += runs[end].rows;
    }
    const auto together = runs.subspan(begin, end - begin);
    if (like.blocks) {
      ASSIGN_OR_RETURN(local.choosing.emplace_back(),
                       BuildBlocks(ctx, rows.layer, together, first_row, call.tables));
      continue;
    }
    if (like.residual && ctx.config.mixer(rows.layer).window < 0) continue;
    const int group = ctx.config.heads / rows.kv_heads;  // query heads of a key-value head
    for (size_t i = 0; i < like.caches.size(); ++i) {
      const DeviceCache& cache = like.caches[i];
      AttendedRows attended;
      for (const DeviceSegment& run : together) attended.Add(state_of(run).caches[i], run.rows);
      local.attentions.push_back(BuildHeads(
          ctx.config, attended,
          {like.cached, group * cache.first_head(), group * cache.heads(), cache.heads()},
          first_row, call));
    }
  }
  // All choices of a model are of the same blocks.
  if (!call.copies.blocks.empty()) {
    const auto of = std::find_if(runs.begin(), runs.end(), [&](const DeviceSegment& run) {
      return state_of(run).blocks.has_value();
    });
    local.bounds = state_of(*of).blocks->SizesOf(std::ssize(call.copies.blocks));
    local.bounds_at = call.tables.Add(std::exchange(call.copies.blocks, {}));
  }
  return local;
}

absl::Status AttendLocal(DeviceContext& ctx, const LocalAttention& attention, const MixerRows& rows,
                         const DeviceCall& call) {
  const DeviceMixer& weights = ctx.layer(rows.layer).mixer;
  if (attention.bounds.blocks > 0) {
    RETURN_IF_ERROR(ctx.device.Run(kernels::BlockBoundsOp{
        attention.bounds, call.tables.At<kernels::KeyBlock>(attention.bounds_at)}));
  }
  for (const BlocksAttention& blocks : attention.choosing) {
    RETURN_IF_ERROR(AttendBlocks(ctx, blocks, call.tables, rows.fp32, call.attended));
  }
  for (const RowsAttention& heads : attention.attentions) {
    const bool all = heads.heads.heads == ctx.config.heads;
    float* const out = all ? call.attended + heads.first_row * ctx.config.inner() : call.some_heads;
    RETURN_IF_ERROR(
        Attend(ctx, heads, call.tables, rows.In(heads.heads.dtype), weights.alibi_slopes, out));
    RETURN_IF_ERROR(heads.places.Run(ctx.device, call.tables));
  }
  return absl::OkStatus();
}

}  // namespace recollect::model
