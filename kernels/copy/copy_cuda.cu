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

absl::Status CopyCuda(cudaStream_t stream, const DeviceCopy* copies, int64_t count,
                      int64_t most_bytes) {
  const absl::StatusOr<CopyPlan> plan = PlanCopy(count, most_bytes);
  if (!plan.ok() || plan->slices == 0) return plan.status();
  const cuda::CopyArgs args = {*plan, copies};
  const auto blocks = static_cast<unsigned>(cuda::CopyBlocks(*plan));
  CopyKernel<<<blocks, cuda::kCopyThreads, 0, stream>>>(args);
  return LaunchStatus("copies");
}

}  // namespace recollect::kernels
