// A pointer's mix (pointer_mix.h) of every row of logits on a CUDA device.
#ifndef RECOLLECT_KERNELS_POINTER_MIX_POINTER_MIX_CUDA_H_
#define RECOLLECT_KERNELS_POINTER_MIX_POINTER_MIX_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/pointer_mix/pointer_mix_operation.h"

namespace recollect::kernels {

// Returns before the work is done. One launch, a thread block a row, which reads its logits twice;
// none without rows. INVALID_ARGUMENT by row_sizes.h, or for a sentinel that is no index; else
// statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const MixPointedOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_POINTER_MIX_POINTER_MIX_CUDA_H_
