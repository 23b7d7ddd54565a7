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

// Returns before the work is done. One launch by row, two by split, none without rows. Launch sizes
// depend on the plan alone, so a captured graph serves other ranges, too. Statuses of
// kernels/cuda_status.h.
absl::Status RangeAttentionCuda(cudaStream_t stream, const RangeAttentionPlan& plan,
                                const RangeDeviceArrays& arrays);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_RANGE_ATTENTION_CUDA_H_
