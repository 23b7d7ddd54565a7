// The thread blocks of RoPE on a device. A thread rotates four pairs of one head of one row, each
// as kernels/rope/rope_simd.cc does:
//   a' = fma(-b, sin, a cos),   b' = fma(a, sin, b cos)
#pragma once

#include "kernels/block/launch.h"
#include "kernels/rope/rope_operation.h"

namespace recollect::kernels::cuda {

constexpr int kRopeThreads = 256;
constexpr int kRopePairs = 4;

RECOLLECT_HD int64_t RopePieces(const RowSizes& sizes) {
  return (sizes.width / 2 + kRopePairs - 1) / kRopePairs;
}

// Pieces kRopeThreads * index and those that follow.
template <RopePairs kPairs>
struct RopeBlocks : Blocks<kRopeThreads> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const RopeOp& op, BlockIndex at) {
    const int64_t index = at.x;
    constexpr bool kHalves = kPairs == RopePairs::kHalves;
    const RowSizes& sizes = op.sizes;
    const int64_t half = sizes.width / 2, pieces = RopePieces(sizes);
    block.Run([&](int t) {
      const int64_t piece = index * kRopeThreads + t;
      const int64_t head = piece / pieces, j = piece % pieces * kRopePairs;
      const int64_t row = head / sizes.heads, left = half - j;
      if (row >= sizes.rows) return;
      float cosines[kRopePairs], sines[kRopePairs];
      ReadFour(op.cosines + row * half + j, left, cosines);
      ReadFour(op.sines + row * half + j, left, sines);
      // The first numbers of the pairs and the second ones, or the first two pairs and the others.
      float* const x =
          op.x + row * sizes.stride + head % sizes.heads * sizes.width + (kHalves ? j : 2 * j);
      float* const y = x + (kHalves ? half : kRopePairs);
      const int64_t left_x = kHalves ? left : 2 * left;
      const int64_t left_y = kHalves ? left : 2 * left - kRopePairs;
      float numbers[2 * kRopePairs];
      ReadFour(x, left_x, numbers);
      ReadFour(y, left_y, numbers + kRopePairs);
      RECOLLECT_UNROLL
      for (int i = 0; i < kRopePairs; ++i) {
        float& first = numbers[kHalves ? i : 2 * i];
        float& second = numbers[kHalves ? kRopePairs + i : 2 * i + 1];
        const float a = first, b = second;
        first = Fma(-b, sines[i], Mul(a, cosines[i]));
        second = Fma(a, sines[i], Mul(b, cosines[i]));
      }
      WriteFour(x, left_x, numbers);
      WriteFour(y, left_y, numbers + kRopePairs);
    });
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const RopeOp& op) {
  RETURN_IF_ERROR(CheckRows("RoPE", op.sizes, 2));
  const int64_t pieces = op.sizes.rows * op.sizes.heads * RopePieces(op.sizes);
  const BlockGrid grid = {.x = CeilDiv(pieces, kRopeThreads)};
  return op.pairs == RopePairs::kHalves
             ? launch(RopeBlocks<RopePairs::kHalves>{}, "RoPE", grid, op)
             : launch(RopeBlocks<RopePairs::kInterleaved>{}, "RoPE", grid, op);
}

}  // namespace recollect::kernels::cuda
