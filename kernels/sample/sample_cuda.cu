#include "kernels/block/row_sizes.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/sample/sample_cuda.h"
#include "kernels/sample/sample_kernel.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: the row.
__global__ void __launch_bounds__(cuda::kSampleThreads) SampleKernel(const SampleOp op) {
  __shared__ cuda::SampleShared shared;
  cuda::CudaBlock block;
  cuda::RunSample<cuda::CudaBlock>({block, shared, op, blockIdx.x});
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const SampleOp& op) {
  absl::Status status = CheckRows("sample", {op.rows, op.vocab});
  if (!status.ok() || op.rows == 0) return status;
  SampleKernel<<<static_cast<unsigned>(op.rows), cuda::kSampleThreads, 0, stream>>>(op);
  return LaunchStatus("sample");
}

}  // namespace recollect::kernels
