#include "kernels/block_topk/block_bounds_cuda.h"
#include "kernels/block_topk/block_bounds_kernel.h"
#include "kernels/cuda/cuda_status.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: 128 channels, of one block or of neighbours.
__global__ void __launch_bounds__(cuda::kBoundsThreads) BoundsKernel(const BlockBoundsOp op) {
  cuda::CudaBlock block;
  cuda::RunBounds(block, op, blockIdx.x);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const BlockBoundsOp& op) {
  const BlockBoundsSizes& sizes = op.sizes;
  absl::Status status = CheckBlockBounds(sizes);
  if (!status.ok() || sizes.blocks == 0 || sizes.width == 0) return status;
  const auto count = static_cast<unsigned>(cuda::BoundsBlocks(sizes));
  BoundsKernel<<<count, cuda::kBoundsThreads, 0, stream>>>(op);
  return LaunchStatus("bounds of blocks");
}

}  // namespace recollect::kernels
