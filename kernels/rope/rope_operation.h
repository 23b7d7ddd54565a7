// RoPE (rope.h) as an operation of a device, every row at a position of its own.
#ifndef RECOLLECT_KERNELS_ROPE_ROPE_OPERATION_H_
#define RECOLLECT_KERNELS_ROPE_ROPE_OPERATION_H_

#include "kernels/block/row_sizes.h"
#include "kernels/rope/rope.h"

namespace recollect::kernels {

// In place; q and k that are adjacent count as heads of one row. Pointers are device memory,
// borrowed until the work is done.
struct RopeOp {
  RowSizes sizes;  // width: that of a head, and even
  RopePairs pairs = RopePairs::kHalves;
  const float* cosines = nullptr;  // [rows, width / 2] fp32, dense, of RopeFactors
  const float* sines = nullptr;    // likewise
  float* x = nullptr;              // [rows, heads, width] fp32, rows sizes.stride floats apart
  friend bool operator==(const RopeOp&, const RopeOp&) = default;
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_ROPE_ROPE_OPERATION_H_
