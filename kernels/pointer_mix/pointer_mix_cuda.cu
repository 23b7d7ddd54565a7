#include "kernels/block/row_sizes.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/pointer_mix/pointer_mix_cuda.h"
#include "kernels/pointer_mix/pointer_mix_kernel.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: the row.
__global__ void __launch_bounds__(cuda::kPointerThreads) PointerMixKernel(const MixPointedOp op) {
  __shared__ cuda::PointerShared shared;
  cuda::CudaBlock block;
  cuda::RunPointerMix(block, shared, op, blockIdx.x);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const MixPointedOp& op) {
  absl::Status status = CheckPointerRows({op.rows, op.vocab}, op.sentinel);
  if (!status.ok() || op.rows == 0) return status;
  PointerMixKernel<<<static_cast<unsigned>(op.rows), cuda::kPointerThreads, 0, stream>>>(op);
  return LaunchStatus("pointer mix");
}

}  // namespace recollect::kernels
