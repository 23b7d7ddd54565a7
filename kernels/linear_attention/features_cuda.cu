#include "kernels/cuda/cuda_status.h"
#include "kernels/linear_attention/features_cuda.h"
#include "kernels/linear_attention/features_kernel.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: eight heads.
template <FeatureMap kMap>
__global__ void __launch_bounds__(cuda::kFeatureThreads) FeatureKernel(const FeaturesOp op) {
  cuda::CudaBlock block;
  cuda::RunFeatures<kMap>(block, op, blockIdx.x);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const FeaturesOp& op) {
  const RowSizes& sizes = op.sizes;
  absl::Status status = CheckFeatures(sizes);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  const auto blocks = static_cast<unsigned>(cuda::FeatureBlocks(sizes));
  const auto kernel = op.map == FeatureMap::kSoftmax ? FeatureKernel<FeatureMap::kSoftmax>
                                                     : FeatureKernel<FeatureMap::kRelu>;
  kernel<<<blocks, cuda::kFeatureThreads, 0, stream>>>(op);
  return LaunchStatus("features");
}

}  // namespace recollect::kernels
