// The sparse search (sparse_topk.h) on a device, for a batch of queries over one list of ranges.
// Sums are whole numbers in shared memory, the same in any order of the atomic additions, so that
// hits, scores and ties are those of the CPU to the bit; a dense part, which only a device adds
// here, has the bits of kernels/cuda/cuda_math.h. A query's result has the same bits with any other
// queries.
//   slices = SparseSlices(ranges);
//   plan = PlanSparseTopK({.queries = 1, .slices = std::ssize(slices), .candidates = 290000, .n =
//   8}); device.Run(SparseTopKOp{plan, ranges, slices, terms, queries, dense, workspace, …});
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/landmark_topk/landmark_topk_plan.h"
#include "kernels/sparse_topk/sparse_range.h"
#include "kernels/sparse_topk/sparse_topk.h"

namespace recollect::kernels {

// Blocks of a slice, at most. Sums of so many are 8 KiB of shared memory, and 16 M tokens make 142
// slices, as many as a large GPU has multiprocessors.
inline constexpr int kSliceBlocks = 2048;

// A range in a device's memory, and the candidate that its first block is.
struct DeviceSparseRange {
  SparseLists lists;            // the addresses are the device's
  const Bf16* dense = nullptr;  // [blocks, width]; null where the width is 0
  int64_t first = 0;
};

// Blocks [begin, begin + kSliceBlocks) of a range, as far as it goes.
struct SparseSlice {
  int32_t range = 0;  // index
  int32_t begin = 0;
  friend bool operator==(const SparseSlice&, const SparseSlice&) = default;
};

// The terms of one query, and what it finds: candidates after `below` in the order of results.
struct DeviceSparseQuery {
  int64_t first_term = 0;  // index among the terms of all queries
  int32_t terms = 0;
  float scale = 0;               // WholeQuery's
  uint64_t below = ~uint64_t{};  // PackCandidate (kernels/cuda/cuda_order.h); its first value: all
};

struct SparseTopKSizes {
  int64_t queries = 0;
  int64_t slices = 0;
  int64_t candidates = 0;  // blocks of all ranges
  int width = 0;           // of the dense part; 0: there is none
  int n = 0;
  friend bool operator==(const SparseTopKSizes&, const SparseTopKSizes&) = default;
};

struct SparseTopKPlan {
  SparseTopKSizes sizes;
  float dense_scale = 0;  // 1 / sqrt(width)
  int64_t workspace_bytes = 0;
  friend bool operator==(const SparseTopKPlan&, const SparseTopKPlan&) = default;
};

// INVALID_ARGUMENT when n > kMaxDeviceTopK, width > kMaxDeviceKeyWidth, there are 2^30 candidates
// or more, queries times slices are 2^31 or more, or a size is negative.
absl::StatusOr<SparseTopKPlan> PlanSparseTopK(const SparseTopKSizes& sizes);

// Returns the slices of ranges in order, to be copied to the device.
std::vector<SparseSlice> SparseSlices(std::span<const DeviceSparseRange> ranges);

// The arguments of one operation. Pointers are device memory, borrowed until the work is done;
// outputs may not overlap inputs. Results are best first; where there are fewer than n hits, -1 and
// -infinity follow. Without a dense part, hits and scores are those of SparseTopK. With one,
//   score(block) = <dense query, dense key> / sqrt(width) + the score of sparse_topk.h
// and every block is a hit; the product is summed as landmark_topk_plan.h says. Dense keys may have
// any alignment, and are read fastest at multiples of 16 bytes with a width that is a multiple
// of 8.
struct SparseTopKOp {
  static constexpr bool kChangesEachStep = true;  // kernels/device/operation.h
  SparseTopKPlan plan;
  const DeviceSparseRange* ranges = nullptr;
  const SparseSlice* slices = nullptr;         // [slices]
  const WholeTerm* terms = nullptr;            // of all queries
  const DeviceSparseQuery* queries = nullptr;  // [queries]
  const float* dense = nullptr;                // [queries, width] fp32
  void* workspace = nullptr;                   // plan.workspace_bytes, aligned to 8
  int64_t* candidates = nullptr;               // [queries, n]
  float* scores = nullptr;                     // [queries, n]
  friend bool operator==(const SparseTopKOp&, const SparseTopKOp&) = default;
};

}  // namespace recollect::kernels
