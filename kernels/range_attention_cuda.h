// Range attention (range_attention.h) on a CUDA device: the rows of a decode step of many
// sequences, each with a cache of its own, or the rows of a prefill over one cache.
//   p = softmax over all entries of all ranges of (q·k / sqrt(head_dim) + bias);  out = Σ p v
// in fp32; no entries: out = 0. A row has the same bits beside any other rows, wherever its entries
// lie, and either way of the plan: what a prefill computes for a row, a decode step computes, too.
// No atomics. Entries may come as lists, a row's and head's own, with the bits that a range of the
// same entries has.
//   plan = PlanRangeAttention(sizes, multiprocessors);  // range_attention_plan.h
//   CheckRanges(plan, sets);                            // host copies, before they go up
//   RangeAttentionCuda(stream, plan, {q, q_stride, parts, parts_per_row, sets, slopes, …});
#ifndef RECOLLECT_KERNELS_RANGE_ATTENTION_CUDA_H_
#define RECOLLECT_KERNELS_RANGE_ATTENTION_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/range_attention_plan.h"

namespace recollect::kernels {

// Device memory, borrowed until what was queued has run. KvSpan's pointers are device memory, too,
// at any multiple of 4 bytes; multiples of 16 with head_dim a multiple of 8 are read fastest.
struct RangeDeviceArrays {
  const float* q = nullptr;  // [rows, heads, head_dim] fp32, rows q_stride floats apart
  int64_t q_stride = 0;
  const KvSpan* parts = nullptr;   // [kMaxRanges] shared by all rows, or [rows, kMaxRanges]
  int64_t parts_per_row = 0;       // 0 or kMaxRanges, accordingly
  const RangeSet* sets = nullptr;  // [rows]; not read with lists
  RangeLists lists = {};           // written on the device, mostly: nothing checks them
  const float* slopes = nullptr;   // [heads] of ALiBi; null: no bias
  void* workspace = nullptr;       // plan.workspace_bytes, aligned to 4
  float* out = nullptr;            // [rows, heads, head_dim] dense, not overlapping any input
};

// Returns before the work is done. One launch by row, two by split, none without rows. Launch sizes
// depend on the plan alone, so a captured graph serves other ranges, too. Statuses of
// kernels/cuda_status.h.
absl::Status RangeAttentionCuda(cudaStream_t stream, const RangeAttentionPlan& plan,
                                const RangeDeviceArrays& arrays);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_RANGE_ATTENTION_CUDA_H_
