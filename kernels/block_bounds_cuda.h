// What block top-k (block_topk_cuda.h) scores whole blocks of keys by, on a CUDA device, for blocks
// of many sequences and layers at once:
//   low_i = min over the block's keys of k_i, high_i = max           smallest and largest (Quest)
//   low_i = high_i = (Σ over the block's keys of k_i) / block        the mean key (MoBA)
// in fp32, keys one after the other: the bits of the CPU's (model/block_cache.cc), whatever blocks
// are beside it.
//   CheckKeyBlocks(sizes, blocks);                      // host copies, before they go up
//   BlockBoundsCuda(stream, sizes, blocks_on_device);
#ifndef RECOLLECT_KERNELS_BLOCK_BOUNDS_CUDA_H_
#define RECOLLECT_KERNELS_BLOCK_BOUNDS_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/block_bounds_plan.h"

namespace recollect::kernels {

// blocks[sizes.blocks] and what they point to are device memory, borrowed until what is queued on
// `stream` here has run; the call returns before that. One launch, none without blocks or channels.
// NaN that is a block's first key of a channel stays in its bounds, others in its mean alone.
// INVALID_ARGUMENT by CheckBlockBounds; else statuses of kernels/cuda_status.h.
absl::Status BlockBoundsCuda(cudaStream_t stream, const BlockBoundsSizes& sizes,
                             const KeyBlock* blocks);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_BLOCK_BOUNDS_CUDA_H_
