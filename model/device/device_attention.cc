// Attention of rows over keys and values on a device, for mixers and the chunk encoder: range
// attention over caches in fp32, tile attention over those in Bf16.
#include <algorithm>

#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {

using enum DeviceScratch;

RowsAttention BuildRows(const ModelConfig& config, const AttendedRows& attended,
                        const AttendedHeads& heads, int64_t kv_stride, DeviceTables& tables) {
  const auto rows = static_cast<int64_t>(attended.sets.size());
  RowsAttention attention = {.heads = heads, .kv_stride = kv_stride};
  attention.sets_at = tables.Add(attended.sets);
  if (heads.dtype == DType::kFloat32) {
    std::vector<kernels::KvSpan> parts;
    for (const CachedRows& run : attended.cached) {
      for (int64_t row = 0; row < run.rows; ++row) {
        for (const CachePart& part : run.parts) {
          parts.push_back(
              {static_cast<const float*>(part.keys), static_cast<const float*>(part.values)});
        }
      }
    }
    attention.parts_at = tables.Add(parts);
    attention.ranges = {.rows = rows,
                        .heads = heads.heads,
                        .kv_heads = heads.kv_heads,
                        .head_dim = config.head_dim};
    int64_t& most = attention.ranges.max_entries;
    for (const kernels::RangeSet& set : attended.sets)
      most = std::max(most, kernels::EntriesOf(set));
    most = RoundedSize(most, kernels::kMaxRangeEntries);
    return attention;
  }
  std::vector<kernels::CacheRows> caches;
  for (const CachedRows& run : attended.cached) {
    kernels::CacheRows& cache = caches.emplace_back(kernels::CacheRows{.rows = run.rows});
    for (size_t i = 0; i < run.parts.size(); ++i) {
      cache.parts[i] = {static_cast<const Bf16*>(run.parts[i].keys),
                        static_cast<const Bf16*>(run.parts[i].values)};
    }
  }
  const std::vector<kernels::RowTile> tiles = kernels::RowTilesOf(
      caches, attended.sets, kernels::MostTileRows(heads.heads, heads.kv_heads));
  attention.tiles_at = tables.Add(tiles);
  attention.tiles = kernels::SizesOf(
      {.rows = rows, .heads = heads.heads, .kv_heads = heads.kv_heads, .head_dim = config.head_dim},
      tiles);
  attention.tiles.max_splits = RoundedSize(attention.tiles.max_splits, kernels::kMaxTileSplits);
  return attention;
}

absl::Status Attend(DeviceContext& ctx, const RowsAttention& attention, const DeviceTables& tables,
                    const QkvRows& qkv, const float* slopes, float* out) {
  const void* const q =
      qkv.At(attention.first_row, int64_t{attention.heads.first} * ctx.config.head_dim);
  if (attention.heads.dtype == DType::kFloat32) {
    ASSIGN_OR_RETURN(const kernels::RangeAttentionPlan plan,
                     kernels::PlanRangeAttention(attention.ranges, ctx.device.multiprocessors()));
    ASSIGN_OR_RETURN(void* const memory, ctx.Bytes(kWorkspace, plan.workspace_bytes));
    return ctx.device.Run(
        kernels::RangeAttentionOp{.plan = plan,
                                  .q = static_cast<const float*>(q),
                                  .q_stride = qkv.stride,
                                  .parts = tables.At<kernels::KvSpan>(attention.parts_at),
                                  .parts_per_row = kernels::kMaxRanges,
                                  .sets = tables.At<kernels::RangeSet>(attention.sets_at),
                                  .slopes = slopes,
                                  .workspace = memory,
                                  .out = out});
  }
  ASSIGN_OR_RETURN(const kernels::TileAttentionPlan plan,
                   kernels::PlanTileAttention(attention.tiles, ctx.device.multiprocessors()));
  ASSIGN_OR_RETURN(void* const memory, ctx.Bytes(kWorkspace, plan.workspace_bytes));
  return ctx.device.Run(
      kernels::TileAttentionOp{.plan = plan,
                               .q = static_cast<const Bf16*>(q),
                               .q_stride = qkv.stride,
                               .kv_stride = attention.kv_stride,
                               .tiles = tables.At<kernels::RowTile>(attention.tiles_at),
                               .sets = tables.At<kernels::RangeSet>(attention.sets_at),
                               .workspace = memory,
                               .out = out});
}

}  // namespace recollect::model
