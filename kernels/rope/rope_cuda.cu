#include "kernels/cuda/cuda_status.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/rope/rope_kernel.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: 256 times four pairs.
template <RopePairs kPairs>
__global__ void __launch_bounds__(cuda::kRopeThreads) RopeKernel(const RopeOp op) {
  cuda::CudaBlock block;
  cuda::RunRope<kPairs>(block, op, blockIdx.x);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const RopeOp& op) {
  const RowSizes& sizes = op.sizes;
  absl::Status status = CheckRows("RoPE", sizes, 2);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  const auto blocks = static_cast<unsigned>(cuda::RopeBlocks(sizes));
  const auto kernel = op.pairs == RopePairs::kHalves ? RopeKernel<RopePairs::kHalves>
                                                     : RopeKernel<RopePairs::kInterleaved>;
  kernel<<<blocks, cuda::kRopeThreads, 0, stream>>>(op);
  return LaunchStatus("RoPE");
}

}  // namespace recollect::kernels
