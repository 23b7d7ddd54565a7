// Range attention (range_attention.h) on a device: the rows of a decode step of many sequences,
// each with a cache of its own, or the rows of a prefill over one cache.
//   p = softmax over all entries of all ranges of (q·k / sqrt(head_dim) + bias);  out = Σ p v
// in fp32; no entries: out = 0. A row's bits do not depend on the other rows, on where its entries
// lie, or on how the plan splits the work: a prefill and a decode step compute the same. No
// atomics. Entries may also be given as lists, one for each row and head; a list gives the same
// bits as a range with the same entries.
//   plan = PlanRangeAttention(sizes, multiprocessors);
//   CheckRanges(plan, sets);                            // host copies, before the upload
//   device.Run(RangeAttentionOp{plan, q, q_stride, parts, parts_per_row, sets, …});
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/range_attention/range_attention.h"

namespace recollect::kernels {

inline constexpr int kMaxRangeHeadDim = 128;  // one thread per number of the output
inline constexpr int64_t kMaxRangeEntries = int64_t{65535} * 256;  // of one row

// Sizes for which a graph is captured; it may be replayed with other ranges within them.
struct RangeAttentionSizes {
  int64_t rows = 0;
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int64_t max_entries = 0;  // of one row, over its ranges
  friend bool operator==(const RangeAttentionSizes&, const RangeAttentionSizes&) = default;
};

// Lists of entries in place of ranges, for rows and heads that each choose their own
// (kernels/block_topk/block_topk_plan.h): entry i of (row, head)'s list is entry entries[row, head,
// i] of the row's part 0.
struct RangeLists {
  const int32_t* entries = nullptr;  // [rows, heads, max_entries], the first counts[…] are read
  const int32_t* counts = nullptr;   // [rows, heads], at most max_entries; null: no lists
  friend bool operator==(const RangeLists&, const RangeLists&) = default;
};

// A row's entries, in the order of its own ranges or list, are cut into splits of fixed length; a
// split is one softmax of its own, and splits are joined in order by log-sum-exp. Neither the other
// rows nor the strategy change where the cuts are.
struct RangeAttentionPlan {
  // By split: a thread block for each (row, head, split), joined by a second launch; for the few
  // rows of a decode step. By row: a block takes neighbouring rows of one head, whose entries
  // mostly are the same, through all their splits; for a prefill.
  enum class Strategy { kBySplit, kByRow };
  RangeAttentionSizes sizes;
  Strategy strategy = Strategy::kByRow;
  float scale = 0;              // 1 / sqrt(head_dim)
  int64_t splits = 0;           // for max_entries
  int block_rows = 1;           // rows of a block by row
  int64_t workspace_bytes = 0;  // by split: fp32 [rows, heads, splits, 2 + head_dim]
  friend bool operator==(const RangeAttentionPlan&, const RangeAttentionPlan&) = default;
};

// Chooses the strategy for a device with that many multiprocessors; both give the same bits.
// INVALID_ARGUMENT when a size is negative, heads or head_dim is 0, kv_heads does not divide heads,
// head_dim > kMaxRangeHeadDim, or a size is beyond what a launch can count (65 535 heads, 16
// million entries).
absl::StatusOr<RangeAttentionPlan> PlanRangeAttention(const RangeAttentionSizes& sizes,
                                                      int multiprocessors);

// Plans with a given strategy, for tests and benchmarks.
absl::StatusOr<RangeAttentionPlan> PlanRangeAttention(const RangeAttentionSizes& sizes,
                                                      RangeAttentionPlan::Strategy strategy);

// Returns the number of a row's entries over its ranges; a range that ends before it begins has
// none.
int64_t EntriesOf(const RangeSet& set);

// Checks host copies before they are uploaded, since the device checks nothing: sets within the
// plan's sizes, ranges that begin at 0 or later. INVALID_ARGUMENT names the row.
absl::Status CheckRanges(const RangeAttentionPlan& plan, std::span<const RangeSet> sets);

// The arguments of one operation. Pointers are device memory, borrowed until the work is done.
// KvSpan's pointers are device memory, too, at any multiple of 4 bytes; multiples of 16 with
// head_dim a multiple of 8 are read fastest. Launches depend on the plan alone, so a captured graph
// can be replayed with other ranges.
struct RangeAttentionOp {
  RangeAttentionPlan plan;
  const float* q = nullptr;  // [rows, heads, head_dim] fp32, rows q_stride floats apart
  int64_t q_stride = 0;
  const KvSpan* parts = nullptr;   // [kMaxRanges] shared by all rows, or [rows, kMaxRanges]
  int64_t parts_per_row = 0;       // 0 or kMaxRanges, accordingly
  const RangeSet* sets = nullptr;  // [rows]; not read with lists
  RangeLists lists = {};           // usually written on the device; not checked
  const float* slopes = nullptr;   // [heads] of ALiBi; null: no bias
  void* workspace = nullptr;       // plan.workspace_bytes, aligned to 4
  float* out = nullptr;            // [rows, heads, head_dim] dense, not overlapping any input
  friend bool operator==(const RangeAttentionOp&, const RangeAttentionOp&) = default;
};

}  // namespace recollect::kernels
