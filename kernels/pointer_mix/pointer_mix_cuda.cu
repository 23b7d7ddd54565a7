#include "kernels/cuda/cuda_status.h"
#include "kernels/device/row_sizes.h"
#include "kernels/pointer_mix/pointer_mix_cuda.h"
#include "kernels/pointer_mix/pointer_mix_kernel.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: the row.
__global__ void __launch_bounds__(cuda::kPointerThreads)
    PointerMixKernel(const cuda::PointerArgs args) {
  __shared__ cuda::PointerShared shared;
  cuda::CudaBlock block;
  cuda::RunPointerMix(block, shared, args, blockIdx.x);
}

}  // namespace

absl::Status MixPointedCuda(cudaStream_t stream, int64_t rows, int64_t vocab, int32_t sentinel,
                            const PointedToken* pointed, const int64_t* ends, float* logits) {
  absl::Status status = CheckPointerRows({rows, vocab}, sentinel);
  if (!status.ok() || rows == 0) return status;
  const cuda::PointerArgs args = {vocab, sentinel, pointed, ends, logits};
  PointerMixKernel<<<static_cast<unsigned>(rows), cuda::kPointerThreads, 0, stream>>>(args);
  return LaunchStatus("pointer mix");
}

}  // namespace recollect::kernels
