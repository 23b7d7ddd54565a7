#include "kernels/copy/copy_cuda.h"
#include "kernels/copy/copy_kernel.h"
#include "kernels/cuda/cuda_status.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: eight slices.
__global__ void __launch_bounds__(cuda::kCopyThreads) CopyKernel(const cuda::CopyArgs args) {
  cuda::CudaBlock block;
  cuda::RunCopy(block, args, blockIdx.x);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const CopyOp& op) {
  const absl::StatusOr<CopyPlan> plan = PlanCopy(op.count, op.most_bytes);
  if (!plan.ok() || plan->slices == 0) return plan.status();
  const cuda::CopyArgs args = {*plan, op.copies};
  const auto blocks = static_cast<unsigned>(cuda::CopyBlocks(*plan));
  CopyKernel<<<blocks, cuda::kCopyThreads, 0, stream>>>(args);
  return LaunchStatus("copies");
}

absl::Status Launch(cudaStream_t stream, const ZeroOp& op) {
  if (op.bytes == 0) return absl::OkStatus();
  return CudaStatus(cudaMemsetAsync(op.to, 0, static_cast<size_t>(op.bytes), stream), "zeros");
}

}  // namespace recollect::kernels
