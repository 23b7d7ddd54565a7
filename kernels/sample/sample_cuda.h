// The next token (sample.h) of every row of logits on a CUDA device, so that only one number per
// row is copied to the host.
#ifndef RECOLLECT_KERNELS_SAMPLE_SAMPLE_CUDA_H_
#define RECOLLECT_KERNELS_SAMPLE_SAMPLE_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/sample/sample.h"

namespace recollect::kernels {

// choices[rows] = Sample of each row of logits[rows, vocab] fp32, dense, under settings[rows]: the
// same as on the host. All are device memory, borrowed until the work queued here on `stream` is
// done; the call returns before that. Logits at multiples of 16 bytes with vocab a multiple of four
// are read fastest. One launch, a thread block a row; none without rows. A row with temperature 0
// is read once; each of top-k, top-p and the draw reads it, in cache, 8 to 16 times more.
// INVALID_ARGUMENT by row_sizes.h; else statuses of kernels/cuda/cuda_status.h.
absl::Status SampleCuda(cudaStream_t stream, const float* logits, int64_t rows, int32_t vocab,
                        const NeverChosen& never, const SampleSettings* settings, int32_t* choices);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_SAMPLE_SAMPLE_CUDA_H_
