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
absl::Status Launch(cudaStream_t stream, absl::string_view op, int64_t stride,
                    const RowArgs<Out>& args) {
  absl::Status status = CheckRows(op, {args.rows, args.width, 1, stride});
  if (!status.ok() || args.rows == 0 || args.width == 0) return status;
  const auto blocks = static_cast<unsigned>(cuda::BlocksOf(args));
  RowKernel<Function><<<blocks, cuda::kRowThreads, 0, stream>>>(args);
  return LaunchStatus(op);
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

template <typename Out>
absl::Status RmsNormCuda(cudaStream_t stream, const RowSizes& sizes, const float* x,
                         const float* gain, float eps, Out* y) {
  return LaunchNorm(stream, NormArgs<Out>{sizes, x, gain, 0, eps, y});
}

absl::Status RmsNormByHeadCuda(cudaStream_t stream, const RowSizes& sizes, const float* x,
                               const float* gain, float eps, float* y) {
  return LaunchNorm(stream, NormArgs<float>{sizes, x, gain, sizes.width, eps, y});
}

template <typename Out>
absl::Status SwiGluCuda(cudaStream_t stream, const float* x, int64_t rows, int64_t width, Out* y) {
  return Launch<cuda::SiluProduct>(stream, "SwiGLU", width, cuda::GluArgs(x, rows, width, y));
}

template <typename Out>
absl::Status GeGluCuda(cudaStream_t stream, const float* x, int64_t rows, int64_t width, Out* y) {
  return Launch<cuda::GeluProduct>(stream, "GEGLU", width, cuda::GluArgs(x, rows, width, y));
}

template <typename Out>
absl::Status GeluCuda(cudaStream_t stream, const float* x, int64_t count, Out* y) {
  return Launch<cuda::GeluAlone>(stream, "GELU", count, cuda::FlatArgs(x, nullptr, count, y));
}

template <typename Out>
absl::Status SigmoidGateCuda(cudaStream_t stream, const float* gate, int64_t gate_stride,
                             const float* x, int64_t rows, int64_t width, Out* y) {
  return Launch<cuda::SigmoidProduct>(stream, "sigmoid gate", gate_stride,
                                      cuda::GateArgs(gate, gate_stride, x, rows, width, y));
}

absl::Status AddCuda(cudaStream_t stream, const float* x, int64_t count, float* y) {
  return Launch<cuda::Sum>(stream, "sum", count, cuda::FlatArgs(y, x, count, y));
}

absl::Status ConvertToBf16Cuda(cudaStream_t stream, const float* x, int64_t stride, int64_t rows,
                               int64_t width, Bf16* y) {
  return Launch<cuda::Unchanged>(stream, "conversion to bf16", stride,
                                 cuda::StridedArgs(x, stride, rows, width, y));
}

#define RECOLLECT_INSTANTIATE(Out)                                                             \
  template absl::Status RmsNormCuda(cudaStream_t, const RowSizes&, const float*, const float*, \
                                    float, Out*);                                              \
  template absl::Status SwiGluCuda(cudaStream_t, const float*, int64_t, int64_t, Out*);        \
  template absl::Status GeGluCuda(cudaStream_t, const float*, int64_t, int64_t, Out*);         \
  template absl::Status GeluCuda(cudaStream_t, const float*, int64_t, Out*);                   \
  template absl::Status SigmoidGateCuda(cudaStream_t, const float*, int64_t, const float*,     \
                                        int64_t, int64_t, Out*);
RECOLLECT_INSTANTIATE(float)
RECOLLECT_INSTANTIATE(Bf16)
#undef RECOLLECT_INSTANTIATE

}  // namespace recollect::kernels
