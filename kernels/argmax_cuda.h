// The greedy choice (argmax.h) for every row of logits on a CUDA device, so that one number a row
// goes to the host.
#ifndef RECOLLECT_KERNELS_ARGMAX_CUDA_H_
#define RECOLLECT_KERNELS_ARGMAX_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/argmax.h"

namespace recollect::kernels {

// choices[rows] = Argmax of each row of logits[rows, vocab] fp32, dense. Both are device memory,
// borrowed until what is queued on `stream` here has run; the call returns before that. Logits at
// multiples of 16 bytes with vocab a multiple of four are read fastest. One launch, a thread block
// a row; none without rows. INVALID_ARGUMENT by row_sizes.h; else statuses of
// kernels/cuda_status.h.
absl::Status ArgmaxCuda(cudaStream_t stream, const float* logits, int64_t rows, int32_t vocab,
                        const NeverChosen& never, int32_t* choices);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_ARGMAX_CUDA_H_
