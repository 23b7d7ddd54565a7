// The row-wise operations (elementwise.h) on a CUDA device, in fp32. Out is float, or Bf16 for a
// matrix product that follows: the same numbers, rounded to nearest even.
//   RmsNormCuda(stream, {.rows = 7, .width = 768}, h, gain, eps, normed);
//   SwiGluCuda(stream, projected, 7, 2048, inner);
// All pointers are device memory at any address of their type, borrowed until the work queued here
// on `stream` is done; the calls return before that. Operands at multiples of 16 bytes (Bf16: 8)
// whose rows are a multiple of four numbers apart are read and written fastest. Every call is one
// launch, none without numbers. A row's bits do not depend on the other rows, its place or its
// alignment; RMSNorm sums in an order that depends on the width alone. NaN and infinities appear
// where elementwise.h's operations have them. INVALID_ARGUMENT by row_sizes.h; else
// statuses of kernels/cuda/cuda_status.h.
#ifndef RECOLLECT_KERNELS_ELEMENTWISE_ELEMENTWISE_CUDA_H_
#define RECOLLECT_KERNELS_ELEMENTWISE_ELEMENTWISE_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "base/bf16.h"
#include "kernels/device/row_sizes.h"

namespace recollect::kernels {

// y[r, h, :] = x[r, h, :] / sqrt(mean(x[r, h, :]²) + eps) * gain; gain[width] may be null (all
// ones). x, y: [rows, heads, width], rows sizes.stride numbers apart in both; y may be x.
template <typename Out>
absl::Status RmsNormCuda(cudaStream_t stream, const RowSizes& sizes, const float* x,
                         const float* gain, float eps, Out* y);

// The same with a gain for each head: gain[heads, width], or null.
absl::Status RmsNormByHeadCuda(cudaStream_t stream, const RowSizes& sizes, const float* x,
                               const float* gain, float eps, float* y);

// y[r, j] = silu(x[r, j]) * x[r, width + j]: x[rows, 2 width] holds gate then up; y[rows, width],
// not overlapping x.
template <typename Out>
absl::Status SwiGluCuda(cudaStream_t stream, const float* x, int64_t rows, int64_t width, Out* y);

// The same with GELU in place of silu.
template <typename Out>
absl::Status GeGluCuda(cudaStream_t stream, const float* x, int64_t rows, int64_t width, Out* y);

// The exact GELU: relative error of a few ulp on both sides of zero. x, y: `count` numbers; y may
// be x.
template <typename Out>
absl::Status GeluCuda(cudaStream_t stream, const float* x, int64_t count, Out* y);

// y[r, j] = sigmoid(gate[r, j]) * x[r, j]. gate rows are `gate_stride` floats apart, at least
// width; x and y[rows, width] are dense; y may be x.
template <typename Out>
absl::Status SigmoidGateCuda(cudaStream_t stream, const float* gate, int64_t gate_stride,
                             const float* x, int64_t rows, int64_t width, Out* y);

// y += x over `count` floats.
absl::Status AddCuda(cudaStream_t stream, const float* x, int64_t count, float* y);

// Converts x, with rows `stride` floats apart, to dense y[rows, width].
absl::Status ConvertToBf16Cuda(cudaStream_t stream, const float* x, int64_t stride, int64_t rows,
                               int64_t width, Bf16* y);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_ELEMENTWISE_ELEMENTWISE_CUDA_H_
