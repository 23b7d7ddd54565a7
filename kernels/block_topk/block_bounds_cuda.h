// Bounds by which block top-k (block_topk_cuda.h) scores whole blocks of keys, on a CUDA device,
// for blocks of many sequences and layers at once:
//   low_i = min over the block's keys of k_i, high_i = max           smallest and largest (Quest)
//   low_i = high_i = (Σ over the block's keys of k_i) / block        the mean key (MoBA)
// in fp32, one key after the other: the CPU's bits (model/state/block_cache.cc), whatever other
// blocks the call has.
//   CheckKeyBlocks(sizes, blocks);                      // host copies, before the upload
//   Launch(stream, BlockBoundsOp{sizes, blocks_on_device});
#ifndef RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_CUDA_H_
#define RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/block_topk/block_bounds_plan.h"

namespace recollect::kernels {

// Returns before the work is done. One launch, none without blocks or channels. A NaN in a block's
// first key stays in the bounds of its channel; a NaN in a later key shows in the mean alone.
// INVALID_ARGUMENT by CheckBlockBounds; else statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const BlockBoundsOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_CUDA_H_
