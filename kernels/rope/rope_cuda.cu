#include "kernels/cuda/cuda_status.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/rope/rope_kernel.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: 256 times four pairs.
template <RopePairs kPairs>
__global__ void __launch_bounds__(cuda::kRopeThreads) RopeKernel(const cuda::RopeArgs args) {
  cuda::CudaBlock block;
  cuda::RunRope<kPairs>(block, args, blockIdx.x);
}

}  // namespace

absl::Status RopeCuda(cudaStream_t stream, const RowSizes& sizes, RopePairs pairs,
                      const float* cosines, const float* sines, float* x) {
  absl::Status status = CheckRows("RoPE", sizes, 2);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  const cuda::RopeArgs args = {sizes, cosines, sines, x};
  const auto blocks = static_cast<unsigned>(cuda::RopeBlocks(sizes));
  const auto kernel = pairs == RopePairs::kHalves ? RopeKernel<RopePairs::kHalves>
                                                  : RopeKernel<RopePairs::kInterleaved>;
  kernel<<<blocks, cuda::kRopeThreads, 0, stream>>>(args);
  return LaunchStatus("RoPE");
}

}  // namespace recollect::kernels
