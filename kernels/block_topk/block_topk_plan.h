// Block top-k (block_topk.h) on a device: for each row and head, scores of the whole blocks before
// its own, the choice, and the list of entries that this head attends to, ready for range
// attention. Rows are those of a decode step, each with a cache of its own, of prefill slices, or
// of both; neighbouring rows of one sequence read its bounds together.
//   s_b = Σ_i max(q_i low_bi, q_i high_bi)   in fp32, in an order of its own
//   chosen: the own block, and the count - 1 others of the best scores; of equal scores the lower
//   index first; NaN ranks with -infinity
//   entries: ascending, each once, all positions of chosen blocks up to the row's own and those of
//   the head's pattern
// A row's lists do not depend on the other rows, on the number of multiprocessors, or on whether it
// is part of a prefill or of a decode step. No result depends on the order of atomic operations.
//   plan = PlanBlockTopK(sizes, multiprocessors);
//   CheckBlockTopK(plan, rows, patterns);          // host copies, before the upload
//   device.Run(BlockTopKOp{plan, q, q_stride, rows, patterns, …, entries, counts});
//   device.Run(RangeAttentionOp{.plan = range_plan, …, .lists = {entries, counts}, …});
// range_plan has this plan's rows, heads (kv_heads, too), head_dim and max_entries; part 0 of a row
// is its sequence's whole cache, [length, heads, head_dim], entry t being position t.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace recollect::kernels {

// Sizes for which a graph is captured; it may be replayed with other rows within them.
struct BlockTopKSizes {
  int64_t rows = 0;
  int heads = 0;
  int head_dim = 0;
  int64_t block = 0;  // positions of a block
  int64_t count = 0;  // K: blocks per row and head, its own included
  int64_t max_position = 0;
  int64_t max_entries = 0;  // of one row and head; range attention is planned with it
  friend bool operator==(const BlockTopKSizes&, const BlockTopKSizes&) = default;
};

// The positions that a head attends to at position t besides its blocks, as in
// model/config/pattern.h: p < initial, t - window <= p <= t, and every dilation-th, (p + 1) mod
// dilation = 0, in [t - span, t - window).
struct BlockPattern {
  int64_t window = 0;
  int64_t dilation = -1;  // less than 1: no dilated positions
  int64_t initial = 0;
  int64_t span = 0;
};

// A query and its candidates. low and high: bounds of the whole blocks before its own, [blocks,
// heads, head_dim] fp32 each in device memory, at any multiple of 4 bytes; block b begins at
// position b * block. They are the smallest and largest key by channel (Quest), or both the mean
// key, possibly in one array (MoBA). They are not read if there are no such blocks or none is
// chosen.
struct BlockTopKRow {
  const float* low = nullptr;
  const float* high = nullptr;
  int64_t position = 0;
};

struct BlockTopKPlan {
  BlockTopKSizes sizes;
  int64_t row_tiles = 0;
  int64_t parts = 0;        // of the blocks before max_position's; part p begins at p * part_blocks
  int64_t part_blocks = 0;  // a multiple of the blocks of one step
  int64_t workspace_bytes = 0;
  friend bool operator==(const BlockTopKPlan&, const BlockTopKPlan&) = default;
};

// Chooses the parts for a device with `multiprocessors` multiprocessors. Results do not depend on
// the parts. INVALID_ARGUMENT when a size is negative, heads, head_dim, block or count is 0,
// head_dim > kMaxRangeHeadDim, count - 1 > kMaxDeviceTopK, or a size is beyond what a launch can
// count (65 535 heads; 2^30 rows, positions or entries).
absl::StatusOr<BlockTopKPlan> PlanBlockTopK(const BlockTopKSizes& sizes, int multiprocessors);

// Returns the most entries that a head with this pattern can have at `position`; for max_entries.
int64_t MostBlockEntries(const BlockTopKSizes& sizes, const BlockPattern& pattern,
                         int64_t position);

// Checks host copies before they are uploaded, since the device checks nothing: as many rows as
// planned, one pattern or one for each head, positions and entries within the plan's sizes, bounds
// where blocks are chosen. INVALID_ARGUMENT names the row or head.
absl::Status CheckBlockTopK(const BlockTopKPlan& plan, std::span<const BlockTopKRow> rows,
                            std::span<const BlockPattern> patterns);

// The arguments of one operation. Pointers are device memory, borrowed until the work is done; so
// are the rows' bounds, which are read fastest at multiples of 16 bytes with head_dim a multiple of
// 8. Outputs overlap no input. Launches depend on the plan alone, so a captured graph can be
// replayed with other rows.
struct BlockTopKOp {
  BlockTopKPlan plan;
  const float* q = nullptr;  // [rows, heads, head_dim] fp32, rows q_stride floats apart
  int64_t q_stride = 0;
  const BlockTopKRow* rows = nullptr;      // [rows]
  const BlockPattern* patterns = nullptr;  // one for all heads, or [heads]
  int64_t patterns_per_head = 0;           // 0 or 1, accordingly
  void* workspace = nullptr;               // plan.workspace_bytes, aligned to 8
  int32_t* entries = nullptr;  // [rows, heads, max_entries]; not written past a list's count
  int32_t* counts = nullptr;   // [rows, heads]
  friend bool operator==(const BlockTopKOp&, const BlockTopKOp&) = default;
};

}  // namespace recollect::kernels
