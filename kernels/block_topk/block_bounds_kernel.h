// The thread blocks of bounds of blocks on a device (kernels/block_topk/block_bounds_cuda.h). The
// kernel runs this code on the device; host tests run it phase by phase
// (kernels/block/thread_block.h). "Block" of keys and "thread block" are different things here. A
// thread reduces one channel of one block over its keys in order, as model/state/block_cache.cc
// does.
#ifndef RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_KERNEL_H_
#define RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_KERNEL_H_

#include "kernels/block/thread_block.h"
#include "kernels/block_topk/block_bounds_plan.h"

namespace recollect::kernels::cuda {

constexpr int kBoundsThreads = 128;

inline int64_t BoundsBlocks(const BlockBoundsSizes& sizes) {
  return (sizes.blocks * sizes.width + kBoundsThreads - 1) / kBoundsThreads;
}

// Thread block `index` of BoundsBlocks(op.sizes).
template <typename Block>
RECOLLECT_HD void RunBounds(Block& block, const BlockBoundsOp& op, int64_t index) {
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

}  // namespace recollect::kernels::cuda

#endif  // RECOLLECT_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_KERNEL_H_
