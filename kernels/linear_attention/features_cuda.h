// The features of linear attention (linear_attention.h) on a CUDA device, in fp32, of every head of
// every row, for queries and for keys:
//   softmax: φ(y) = softmax(y), softmax(-y)      relu: φ(y) = max(y, 0), max(-y, 0)
// with y = x * scale. A row's bits do not depend on the other rows, its place or its alignment.
//   FeaturesCuda(stream, FeatureMap::kSoftmax, {rows, head_dim, heads, stride}, q, scale,
//   features);
#ifndef RECOLLECT_KERNELS_LINEAR_ATTENTION_FEATURES_CUDA_H_
#define RECOLLECT_KERNELS_LINEAR_ATTENTION_FEATURES_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/device/row_sizes.h"
#include "kernels/linear_attention/linear_attention.h"

namespace recollect::kernels {

// features[rows, heads, 2 width], dense, = φ(x * scale), not overlapping the inputs; x[rows, heads,
// width], rows sizes.stride floats apart; scale[width], one for all heads, or null (all ones). All
// pointers are device memory, borrowed until the work queued here on `stream` is done; the call
// returns before that. Multiples of 16 bytes, with rows and heads a multiple of four numbers, are
// read and written fastest. One launch, none without numbers. A channel that is NaN makes all
// features of its head NaN for softmax, its own two for relu. INVALID_ARGUMENT by CheckFeatures
// (linear_attention_plan.h); else statuses of kernels/cuda/cuda_status.h.
absl::Status FeaturesCuda(cudaStream_t stream, FeatureMap map, const RowSizes& sizes,
                          const float* x, const float* scale, float* features);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_LINEAR_ATTENTION_FEATURES_CUDA_H_
