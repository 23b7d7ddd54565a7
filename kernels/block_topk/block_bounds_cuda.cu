#include "kernels/block_topk/block_bounds_cuda.h"
#include "kernels/block_topk/block_bounds_kernel.h"
#include "kernels/cuda/cuda_status.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: 128 channels, of one block or of neighbours.
__global__ void __launch_bounds__(cuda::kBoundsThreads) BoundsKernel(const cuda::BoundsArgs args) {
  cuda::CudaBlock block;
  cuda::RunBounds(block, args, blockIdx.x);
}

}  // namespace

absl::Status BlockBoundsCuda(cudaStream_t stream, const BlockBoundsSizes& sizes,
                             const KeyBlock* blocks) {
  absl::Status status = CheckBlockBounds(sizes);
  if (!status.ok() || sizes.blocks == 0 || sizes.width == 0) return status;
  const cuda::BoundsArgs args = {sizes, blocks};
  const auto count = static_cast<unsigned>(cuda::BoundsBlocks(sizes));
  BoundsKernel<<<count, cuda::kBoundsThreads, 0, stream>>>(args);
  return LaunchStatus("bounds of blocks");
}

}  // namespace recollect::kernels
