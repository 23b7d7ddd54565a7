#include "kernels/cuda/cuda_status.h"
#include "kernels/linear_attention/features_cuda.h"
#include "kernels/linear_attention/features_kernel.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: eight heads.
template <FeatureMap kMap>
__global__ void __launch_bounds__(cuda::kFeatureThreads)
    FeatureKernel(const cuda::FeatureArgs args) {
  cuda::CudaBlock block;
  cuda::RunFeatures<kMap>(block, args, blockIdx.x);
}

}  // namespace

absl::Status FeaturesCuda(cudaStream_t stream, FeatureMap map, const RowSizes& sizes,
                          const float* x, const float* scale, float* features) {
  absl::Status status = CheckFeatures(sizes);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  const cuda::FeatureArgs args = {sizes, x, scale, features};
  const auto blocks = static_cast<unsigned>(cuda::FeatureBlocks(sizes));
  const auto kernel = map == FeatureMap::kSoftmax ? FeatureKernel<FeatureMap::kSoftmax>
                                                  : FeatureKernel<FeatureMap::kRelu>;
  kernel<<<blocks, cuda::kFeatureThreads, 0, stream>>>(args);
  return LaunchStatus("features");
}

}  // namespace recollect::kernels
