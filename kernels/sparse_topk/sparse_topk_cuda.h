// The sparse search (sparse_topk.h) on a CUDA device, for a batch of queries over one list of
// ranges. Sums are whole numbers in shared memory, the same in any order of the atomic additions,
// so that hits, scores and ties are those of the CPU to the bit; a dense part, which only a device
// adds here, has the bits of kernels/cuda/cuda_math.h. A query's result has the same bits with any
// other queries.
//   plan = PlanSparseTopK(sizes);   // sparse_topk_plan.h
//   Launch(stream, SparseTopKOp{plan, ranges, slices, terms, queries, dense, workspace, …});
#ifndef RECOLLECT_KERNELS_SPARSE_TOPK_SPARSE_TOPK_CUDA_H_
#define RECOLLECT_KERNELS_SPARSE_TOPK_SPARSE_TOPK_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/sparse_topk/sparse_topk_plan.h"

namespace recollect::kernels {

// Returns before the work is done. Two launches, one where there are no blocks, none when there is
// nothing to find. Dense keys may have any alignment, and are read fastest at multiples of 16 bytes
// with a width that is a multiple of 8. Statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const SparseTopKOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_SPARSE_TOPK_SPARSE_TOPK_CUDA_H_
