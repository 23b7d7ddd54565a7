// RoPE (rope.h) on a CUDA device, every row at a position of its own, as the rows of a decode step
// of many sessions are. The angles come from the host, which reduces them in double:
//   RopeFactors(ctx, angles, positions, head_dim, cosines, sines);   // rope.h; copy them up
//   RopeCuda(stream, sizes, angles.pairs, cosines, sines, x);
// A row has the bits that Rope's vector code gives it at its position, whatever the other rows are.
#ifndef RECOLLECT_KERNELS_ROPE_ROPE_CUDA_H_
#define RECOLLECT_KERNELS_ROPE_ROPE_CUDA_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/device/row_sizes.h"
#include "kernels/rope/rope.h"

namespace recollect::kernels {

// In place on x[rows, heads, width] fp32, where width is that of a head, and even; q and k that are
// adjacent count as heads of one row. cosines, sines: [rows, width / 2] fp32, dense, of
// RopeFactors. All pointers are device memory, borrowed until the work queued here on `stream` is
// done; the call returns before that. Multiples of 16 bytes, with rows and half heads a multiple of
// four numbers, are read fastest. One launch, none without numbers. INVALID_ARGUMENT by
// row_sizes.h; else statuses of kernels/cuda/cuda_status.h.
absl::Status RopeCuda(cudaStream_t stream, const RowSizes& sizes, RopePairs pairs,
                      const float* cosines, const float* sines, float* x);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_ROPE_ROPE_CUDA_H_
