// Range attention (range_attention.h) on a CUDA device: the rows of a decode step of many
// sequences, each with a cache of its own, or the rows of a prefill over one cache.
//   p = softmax over all entries of all ranges of (q·k / sqrt(head_dim) + bias);  out = Σ p v
// in fp32; no entries: out = 0. A row's bits do not depend on the other rows, on where its entries
// lie, or on the plan's way: a prefill and a decode step compute the same. No atomics. Entries may
// also be given as lists, one for each row and head; a list gives the same bits as a range with the
// same entries.
//   plan = PlanRangeAttention(sizes, multiprocessors);  // range_attention_plan.h
//   CheckRanges(plan, sets);                            // host copies, before the upload
//   Launch(stream, RangeAttentionOp{plan, q, q_stride, parts, parts_per_row, sets, …});
#ifndef RECOLLECT_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_CUDA_H_
#define RECOLLECT_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/range_attention/range_attention_plan.h"

namespace recollect::kernels {

// Returns before the work is done. One launch by row, two by split, none without rows. Launch sizes
// depend on the plan alone, so a captured graph can be replayed with other ranges. Statuses of
// kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const RangeAttentionOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_CUDA_H_
