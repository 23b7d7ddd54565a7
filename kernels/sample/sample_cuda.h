// The next token (sample.h) of every row of logits on a CUDA device, so that only one number per
// row is copied to the host.
#ifndef RECOLLECT_KERNELS_SAMPLE_SAMPLE_CUDA_H_
#define RECOLLECT_KERNELS_SAMPLE_SAMPLE_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/sample/sample_operation.h"

namespace recollect::kernels {

// The same choices as on the host. Returns before the work is done. Logits at multiples of 16 bytes
// with vocab a multiple of four are read fastest. One launch, a thread block a row; none without
// rows. A row with temperature 0 is read once; each of top-k, top-p and the draw reads it, in
// cache, 8 to 16 times more. INVALID_ARGUMENT by row_sizes.h; else statuses of
// kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const SampleOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_SAMPLE_SAMPLE_CUDA_H_
