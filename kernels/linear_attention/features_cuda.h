// The features of linear attention (linear_attention.h) on a CUDA device, in fp32, of every head of
// every row, for queries and for keys:
//   softmax: φ(y) = softmax(y), softmax(-y)      relu: φ(y) = max(y, 0), max(-y, 0)
// with y = x * scale. A row's bits do not depend on the other rows, its place or its alignment.
//   Launch(stream, FeaturesOp{FeatureMap::kSoftmax, sizes, q, scale, features});
#ifndef RECOLLECT_KERNELS_LINEAR_ATTENTION_FEATURES_CUDA_H_
#define RECOLLECT_KERNELS_LINEAR_ATTENTION_FEATURES_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/linear_attention/linear_attention_plan.h"

namespace recollect::kernels {

// Returns before the work is done. Multiples of 16 bytes, with rows and heads a multiple of four
// numbers, are read and written fastest. One launch, none without numbers. A channel that is NaN
// makes all features of its head NaN for softmax, its own two for relu. INVALID_ARGUMENT by
// CheckFeatures (linear_attention_plan.h); else statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const FeaturesOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_LINEAR_ATTENTION_FEATURES_CUDA_H_
