// Block top-k (block_topk.h) on a CUDA device: for each row and head, scores of the whole blocks
// before its own, the choice, and the list of entries that this head attends to, ready for range
// attention. Rows are those of a decode step, each with a cache of its own, of prefill slices, or
// of both; neighbouring rows of one sequence read its bounds together.
//   s_b = Σ_i max(q_i low_bi, q_i high_bi)   in fp32, in an order of its own
//   chosen: the own block, and the count - 1 others of the best scores; of equal scores the lower
//   index first; NaN ranks with -infinity
//   entries: ascending, each once, all positions of chosen blocks up to the row's own and those of
//   the head's pattern
// A row's lists do not depend on the other rows, on the number of multiprocessors, or on whether it
// is part of a prefill or of a decode step. No result depends on the order of atomic operations.
//   plan = PlanBlockTopK(sizes, multiprocessors);  // block_topk_plan.h
//   CheckBlockTopK(plan, rows, patterns);          // host copies, before the upload
//   Launch(stream, BlockTopKOp{plan, q, q_stride, rows, patterns, …, entries, counts});
//   Launch(stream, RangeAttentionOp{.plan = range_plan, .q = q, …, .parts = parts, .parts_per_row =
//   …,
//                                   .lists = {entries, counts}, …});
// range_plan has this plan's rows, heads (kv_heads, too), head_dim and max_entries; part 0 of a row
// is its sequence's whole cache, [length, heads, head_dim], entry t being position t.
#ifndef RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_TOPK_CUDA_H_
#define RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_TOPK_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/block_topk/block_topk_plan.h"

namespace recollect::kernels {

// Returns before the work is done. Two launches; one if no blocks have to be ranked, none without
// rows. Launch sizes depend on the plan alone, so a captured graph can be replayed with other rows.
// Statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const BlockTopKOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_TOPK_CUDA_H_
