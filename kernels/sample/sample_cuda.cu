#include "kernels/cuda/cuda_status.h"
#include "kernels/device/row_sizes.h"
#include "kernels/sample/sample_cuda.h"
#include "kernels/sample/sample_kernel.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: the row.
__global__ void __launch_bounds__(cuda::kSampleThreads) SampleKernel(const cuda::SampleArgs args) {
  __shared__ cuda::SampleShared shared;
  cuda::CudaBlock block;
  cuda::RunSample<cuda::CudaBlock>({block, shared, args, blockIdx.x});
}

}  // namespace

absl::Status SampleCuda(cudaStream_t stream, const float* logits, int64_t rows, int32_t vocab,
                        const NeverChosen& never, const SampleSettings* settings,
                        int32_t* choices) {
  absl::Status status = CheckRows("sample", {rows, vocab});
  if (!status.ok() || rows == 0) return status;
  const cuda::SampleArgs args = {vocab, never, logits, settings, choices};
  SampleKernel<<<static_cast<unsigned>(rows), cuda::kSampleThreads, 0, stream>>>(args);
  return LaunchStatus("sample");
}

}  // namespace recollect::kernels
