// RoPE (rope.h) on a device, every row at a position of its own, as the rows of a decode step of
// many sessions are. The angles come from the host, which reduces them in double:
//   RopeFactors(ctx, angles, positions, head_dim, cosines, sines);   // rope.h; copy them up
//   device.Run(RopeOp{sizes, angles.pairs, cosines, sines, x});
// A row has the bits that Rope's vector code gives it at its position, whatever the other rows are.
#pragma once

#include "kernels/block/check_sizes.h"
#include "kernels/rope/rope.h"

namespace recollect::kernels {

// In place; q and k that are adjacent count as heads of one row. Pointers are device memory,
// borrowed until the work is done. Multiples of 16 bytes, with rows and half heads a multiple of
// four numbers, are read fastest. INVALID_ARGUMENT by CheckRows.
struct RopeOp {
  RowSizes sizes;  // width: that of a head, and even
  RopePairs pairs = RopePairs::kHalves;
  const float* cosines = nullptr;  // [rows, width / 2] fp32, dense, of RopeFactors
  const float* sines = nullptr;    // likewise
  float* x = nullptr;              // [rows, heads, width] fp32, rows sizes.stride floats apart
  friend bool operator==(const RopeOp&, const RopeOp&) = default;
};

}  // namespace recollect::kernels
