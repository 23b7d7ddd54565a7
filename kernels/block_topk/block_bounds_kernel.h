// The thread blocks of bounds of blocks on a device. "Block" of keys and "thread block" are
// different things here. A thread reduces one channel of one block over its keys in order, as
// model/state/block_cache.cc does.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/block_topk/block_bounds_plan.h"

namespace recollect::kernels::cuda {

constexpr int kBoundsThreads = 128;

// Channels kBoundsThreads * index and those that follow, of one block or of neighbours.
struct BoundsBlocks : Blocks<kBoundsThreads> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const BlockBoundsOp& op, BlockIndex at) {
    const int64_t index = at.x;
    const BlockBoundsSizes& sizes = op.sizes;
    block.Run([&](int t) {
      const int64_t place = index * kBoundsThreads + t;
      if (place >= sizes.blocks * sizes.width) return;
      const KeyBlock keys = op.blocks[place / sizes.width];
      const int64_t channel = place % sizes.width;
      const float* const from = keys.keys + channel;
      float low = *from, high = low, sum = low;
      RECOLLECT_UNROLL_BY_4
      for (int64_t row = 1; row < sizes.block; ++row) {
        const float key = from[row * sizes.width];
        low = Min(low, key);
        high = Max(high, key);
        sum = Add(sum, key);
      }
      if (sizes.mean) low = high = Div(sum, static_cast<float>(sizes.block));
      keys.low[channel] = low;
      keys.high[channel] = high;
    });
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const BlockBoundsOp& op) {
  const BlockBoundsSizes& sizes = op.sizes;
  RETURN_IF_ERROR(CheckBlockBounds(sizes));
  RETURN_IF_ERROR(
      launch.CheckArrays([&] { return CheckKeyBlocks(sizes, ArrayOf(op.blocks, sizes.blocks)); }));
  const int64_t blocks = CeilDiv(sizes.blocks * sizes.width, kBoundsThreads);
  return launch(BoundsBlocks{}, "bounds of blocks", {.x = blocks}, op);
}

}  // namespace recollect::kernels::cuda
