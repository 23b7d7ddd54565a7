// Copies within a CUDA device, many in one launch: rows of many sequences' caches into a batch, the
// parts of a document's memory into one place. Thousands of short copies take a warp each; a few
// long ones use the whole device.
//   CheckCopies(copies, most_bytes);  // copy_plan.h; host copies, before the upload
//   Launch(stream, CopyOp{copies_on_device, count, most_bytes});
#ifndef RECOLLECT_KERNELS_COPY_COPY_CUDA_H_
#define RECOLLECT_KERNELS_COPY_COPY_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/copy/copy_plan.h"

namespace recollect::kernels {

// Returns before the work is done. Copies whose addresses and length are multiples of 16 are
// fastest. `most_bytes` determines how all are cut into slices. One launch, none without bytes.
// INVALID_ARGUMENT by PlanCopy; else statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const CopyOp& op);

// Returns before the work is done.
absl::Status Launch(cudaStream_t stream, const ZeroOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_COPY_COPY_CUDA_H_
