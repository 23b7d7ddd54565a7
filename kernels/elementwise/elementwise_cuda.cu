#include "kernels/cuda/cuda_status.h"
#include "kernels/elementwise/elementwise_cuda.h"
#include "kernels/elementwise/elementwise_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::NormArgs;
using cuda::RowArgs;

// blockIdx.x: 256 pieces of rows.
template <typename Function, typename Out>
__global__ void __launch_bounds__(cuda::kRowThreads) RowKernel(const RowArgs<Out> args) {
  CudaBlock block;
  cuda::RunRows<Function>(block, args, blockIdx.x);
}

// blockIdx.x: eight narrow rows, or a wide one.
template <typename Out>
__global__ void __launch_bounds__(cuda::kNormThreads) NormKernel(const NormArgs<Out> args) {
  __shared__ cuda::NormShared shared;
  CudaBlock block;
  cuda::RunNorm(block, shared, args, blockIdx.x);
}

template <typename Function, typename Out>
absl::Status LaunchCall(cudaStream_t stream, const cuda::RowCall<Function, Out>& call) {
  const RowArgs<Out>& args = call.args;
  absl::Status status = CheckRows(call.name, {args.rows, args.width, 1, call.stride});
  if (!status.ok() || args.rows == 0 || args.width == 0) return status;
  const auto blocks = static_cast<unsigned>(cuda::BlocksOf(args));
  RowKernel<Function><<<blocks, cuda::kRowThreads, 0, stream>>>(args);
  return LaunchStatus(call.name);
}

template <typename Op>
absl::Status LaunchRows(cudaStream_t stream, const Op& op) {
  return WithNumbers(op.y, [&](auto* y) { return LaunchCall(stream, cuda::RowCallOf(op, y)); });
}

template <typename Out>
absl::Status LaunchNorm(cudaStream_t stream, const NormArgs<Out>& args) {
  absl::Status status = CheckRows("RMSNorm", args.sizes);
  if (!status.ok() || args.sizes.rows == 0 || args.sizes.width == 0) return status;
  const auto blocks = static_cast<unsigned>(cuda::NormBlocks(args.sizes));
  NormKernel<<<blocks, cuda::kNormThreads, 0, stream>>>(args);
  return LaunchStatus("RMSNorm");
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const RmsNormOp& op) {
  return WithNumbers(op.y, [&](auto* y) { return LaunchNorm(stream, cuda::NormArgsOf(op, y)); });
}
absl::Status Launch(cudaStream_t stream, const SwiGluOp& op) { return LaunchRows(stream, op); }
absl::Status Launch(cudaStream_t stream, const GeGluOp& op) { return LaunchRows(stream, op); }
absl::Status Launch(cudaStream_t stream, const GeluOp& op) { return LaunchRows(stream, op); }
absl::Status Launch(cudaStream_t stream, const SigmoidGateOp& op) { return LaunchRows(stream, op); }
absl::Status Launch(cudaStream_t stream, const AddOp& op) { return LaunchRows(stream, op); }
absl::Status Launch(cudaStream_t stream, const ConvertToBf16Op& op) {
  return LaunchRows(stream, op);
}

}  // namespace recollect::kernels
