// RoPE (rope.h) on a CUDA device, every row at a position of its own, as the rows of a decode step
// of many sessions are. The angles come from the host, which reduces them in double:
//   RopeFactors(ctx, angles, positions, head_dim, cosines, sines);   // rope.h; copy them up
//   Launch(stream, RopeOp{sizes, angles.pairs, cosines, sines, x});
// A row has the bits that Rope's vector code gives it at its position, whatever the other rows are.
#ifndef RECOLLECT_KERNELS_ROPE_ROPE_CUDA_H_
#define RECOLLECT_KERNELS_ROPE_ROPE_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/rope/rope_operation.h"

namespace recollect::kernels {

// Returns before the work is done. Multiples of 16 bytes, with rows and half heads a multiple of
// four numbers, are read fastest. One launch, none without numbers. INVALID_ARGUMENT by
// row_sizes.h; else statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const RopeOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_ROPE_ROPE_CUDA_H_
