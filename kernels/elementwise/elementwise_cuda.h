// The row-wise operations (elementwise.h) on a CUDA device, in fp32:
//   Launch(stream, RmsNormOp{.sizes = {.rows = 7, .width = 768}, .x = h, .eps = eps, .y = {h}});
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

#include "absl/status/status.h"
#include "kernels/elementwise/elementwise_operations.h"

namespace recollect::kernels {

absl::Status Launch(cudaStream_t stream, const RmsNormOp& op);
absl::Status Launch(cudaStream_t stream, const SwiGluOp& op);
absl::Status Launch(cudaStream_t stream, const GeGluOp& op);
absl::Status Launch(cudaStream_t stream, const GeluOp& op);
absl::Status Launch(cudaStream_t stream, const SigmoidGateOp& op);
absl::Status Launch(cudaStream_t stream, const AddOp& op);
absl::Status Launch(cudaStream_t stream, const ConvertToBf16Op& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_ELEMENTWISE_ELEMENTWISE_CUDA_H_
