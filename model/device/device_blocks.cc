// Attention of queries that choose blocks on a device (block_attention.cc): bounds of blocks that
// are whole, scores and choice for every row and head, range attention over what each has chosen.
#include <algorithm>

#include "base/status.h"
#include "model/device/device_layers.h"

namespace recollect::model {

using enum DeviceScratch;

absl::StatusOr<BlocksAttention> BuildBlocks(const DeviceContext& ctx, int layer,
                                            std::span<const DeviceSegment> runs, int64_t first_row,
                                            DeviceTables& tables) {
  const DeviceBlockBounds& like = *runs.front().state->layer(layer).blocks;
  std::vector<kernels::BlockPattern> patterns;
  for (const LocalPattern& pattern : like.patterns()) {
    patterns.push_back({pattern.window, pattern.dilation, pattern.initial, pattern.span});
  }
  std::vector<kernels::BlockTopKRow> rows;
  std::vector<kernels::KvSpan> parts;
  BlocksAttention blocks = {.first_row = first_row};
  kernels::BlockTopKSizes sizes = {.heads = ctx.config.heads,
                                   .head_dim = ctx.config.head_dim,
                                   .block = like.choice().block,
                                   .count = like.choice().count};
  for (const DeviceSegment& run : runs) {
    const DeviceLayerState& state = run.state->layer(layer);
    const DeviceCache& cache = state.caches.front();
    const CachePart all = cache.parts()[CacheIndex::kWindow];
    for (int64_t position = cache.length() - run.rows; position < cache.length(); ++position) {
      rows.push_back({state.blocks->low(), state.blocks->high(), position});
      parts.push_back({static_cast<const float*>(all.keys), static_cast<const float*>(all.values)});
      parts.resize(parts.size() + kernels::kMaxRanges - 1);
      sizes.max_position = std::max(sizes.max_position, position);
      for (const kernels::BlockPattern& pattern : patterns) {
        sizes.max_entries =
            std::max(sizes.max_entries, kernels::MostBlockEntries(sizes, pattern, position));
      }
    }
  }
  sizes.rows = static_cast<int64_t>(rows.size());
  sizes.max_position = RoundedSize(sizes.max_position);
  sizes.max_entries = RoundedSize(sizes.max_entries, kernels::kMaxRangeEntries);
  ASSIGN_OR_RETURN(blocks.choose, kernels::PlanBlockTopK(sizes, ctx.device.multiprocessors()));
  ASSIGN_OR_RETURN(blocks.attend, kernels::PlanRangeAttention({.rows = sizes.rows,
                                                               .heads = sizes.heads,
                                                               .kv_heads = sizes.heads,
                                                               .head_dim = sizes.head_dim,
                                                               .max_entries = sizes.max_entries},
                                                              ctx.device.multiprocessors()));
  RETURN_IF_ERROR(kernels::CheckBlockTopK(blocks.choose, rows, patterns));
  blocks.patterns_per_head = patterns.size() > 1 ? 1 : 0;
  blocks.rows_at = tables.Add(rows);
  blocks.patterns_at = tables.Add(patterns);
  blocks.parts_at = tables.Add(parts);
  return blocks;
}

absl::Status AttendBlocks(DeviceContext& ctx, const BlocksAttention& blocks,
                          const DeviceTables& tables, const QkvRows& qkv, float* out) {
  const kernels::BlockTopKSizes& sizes = blocks.choose.sizes;
  const auto* const q = static_cast<const float*>(qkv.At(blocks.first_row, 0));
  const int64_t lists = sizes.rows * sizes.heads;
  ASSIGN_OR_RETURN(void* const memory,
                   ctx.Bytes(kLists, lists * (sizes.max_entries + 1) * int64_t{sizeof(int32_t)}));
  auto* const counts = static_cast<int32_t*>(memory);
  int32_t* const entries = counts + lists;
  ASSIGN_OR_RETURN(void* const best, ctx.Bytes(kWorkspace, blocks.choose.workspace_bytes));
  RETURN_IF_ERROR(ctx.device.Run(
      kernels::BlockTopKOp{.plan = blocks.choose,
                           .q = q,
                           .q_stride = qkv.stride,
                           .rows = tables.At<kernels::BlockTopKRow>(blocks.rows_at),
                           .patterns = tables.At<kernels::BlockPattern>(blocks.patterns_at),
                           .patterns_per_head = blocks.patterns_per_head,
                           .workspace = best,
                           .entries = entries,
                           .counts = counts}));
  ASSIGN_OR_RETURN(void* const splits, ctx.Bytes(kWorkspace, blocks.attend.workspace_bytes));
  return ctx.device.Run(
      kernels::RangeAttentionOp{.plan = blocks.attend,
                                .q = q,
                                .q_stride = qkv.stride,
                                .parts = tables.At<kernels::KvSpan>(blocks.parts_at),
                                .parts_per_row = kernels::kMaxRanges,
                                .lists = {entries, counts},
                                .workspace = splits,
                                .out = out + blocks.first_row * ctx.config.inner()});
}

}  // namespace recollect::model
