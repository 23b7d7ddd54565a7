#include "kernels/argmax_block.h"
#include "kernels/argmax_cuda.h"
#include "kernels/cuda_status.h"
#include "kernels/row_sizes.h"

namespace recollect::kernels {
namespace {

// blockIdx.x: the row.
__global__ void __launch_bounds__(cuda::kArgmaxThreads) ArgmaxKernel(const cuda::ArgmaxArgs args) {
  __shared__ cuda::ArgmaxShared shared;
  cuda::CudaBlock block;
  cuda::RunArgmax(block, shared, args, blockIdx.x);
}

}  // namespace

absl::Status ArgmaxCuda(cudaStream_t stream, const float* logits, int64_t rows, int32_t vocab,
                        const NeverChosen& never, int32_t* choices) {
  absl::Status status = CheckRows("argmax", {rows, vocab});
  if (!status.ok() || rows == 0) return status;
  const cuda::ArgmaxArgs args = {vocab, never, logits, choices};
  ArgmaxKernel<<<static_cast<unsigned>(rows), cuda::kArgmaxThreads, 0, stream>>>(args);
  return LaunchStatus("argmax");
}

}  // namespace recollect::kernels
