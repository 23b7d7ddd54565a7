// A pointer's mix (pointer_mix.h) of every row of logits on a CUDA device.
#ifndef RECOLLECT_KERNELS_POINTER_MIX_POINTER_MIX_CUDA_H_
#define RECOLLECT_KERNELS_POINTER_MIX_POINTER_MIX_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/pointer_mix/pointer_mix.h"

namespace recollect::kernels {

// MixPointed of each row of logits[rows, vocab] fp32, dense, in place. pointed: the tokens of all
// rows; row r has those from ends[r - 1] (0 for row 0) up to ends[r]. ends[rows]. All are device
// memory, borrowed until the work queued here on `stream` is done; the call returns before that.
// One launch, a thread block a row, which reads its logits twice; none without rows.
// INVALID_ARGUMENT by row_sizes.h, or for a sentinel that is no index; else statuses of
// kernels/cuda/cuda_status.h.
absl::Status MixPointedCuda(cudaStream_t stream, int64_t rows, int64_t vocab, int32_t sentinel,
                            const PointedToken* pointed, const int64_t* ends, float* logits);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_POINTER_MIX_POINTER_MIX_CUDA_H_
