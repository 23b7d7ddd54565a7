#include "kernels/copy/copy_kernel.h"
#include "kernels/cuda/cuda_launch.h"

RECOLLECT_LAUNCH(CopyOp)

namespace recollect::kernels {

absl::Status Launch(cudaStream_t stream, const ZeroOp& op) {
  if (op.bytes == 0) return absl::OkStatus();
  return CudaStatus(cudaMemsetAsync(op.to, 0, static_cast<size_t>(op.bytes), stream), "zeros");
}

}  // namespace recollect::kernels
