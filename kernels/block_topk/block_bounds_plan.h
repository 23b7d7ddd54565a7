// Bounds by which block top-k (block_topk_plan.h) scores whole blocks of keys, on a device, for
// blocks of many sequences and layers at once:
//   low_i = min over the block's keys of k_i, high_i = max           smallest and largest (Quest)
//   low_i = high_i = (Σ over the block's keys of k_i) / block        the mean key (MoBA)
// in fp32, one key after the other: the CPU's bits (model/state/block_cache.cc), whatever other
// blocks the call has.
//   CheckKeyBlocks(sizes, blocks);                      // host copies, before the upload
//   device.Run(BlockBoundsOp{sizes, blocks_on_device});
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace recollect::kernels {

struct BlockBoundsSizes {
  int64_t blocks = 0;
  int64_t block = 0;  // keys of each
  int64_t width = 0;  // channels of a key, over all heads
  bool mean = false;  // the mean key in both (MoBA), else smallest and largest by channel (Quest)
  friend bool operator==(const BlockBoundsSizes&, const BlockBoundsSizes&) = default;
};

// A whole block. Its arrays are fp32 in device memory, at any multiple of 4 bytes. low and high may
// be one array if both are the mean; otherwise outputs overlap nothing.
struct KeyBlock {
  const float* keys = nullptr;  // [block, width], dense
  float* low = nullptr;         // [width]
  float* high = nullptr;        // [width]
};

// INVALID_ARGUMENT, naming all sizes, when the number of blocks or channels is negative, blocks
// have no keys, or there are more bounds than one launch can compute (2^33 numbers).
absl::Status CheckBlockBounds(const BlockBoundsSizes& sizes);

// Checks host copies before they are uploaded, since the device checks nothing: as many blocks as
// the sizes say, no array missing. INVALID_ARGUMENT names the block.
absl::Status CheckKeyBlocks(const BlockBoundsSizes& sizes, std::span<const KeyBlock> blocks);

// The arguments of one operation. blocks[sizes.blocks] and what they point to are device memory,
// borrowed until the work is done. A NaN in a block's first key stays in the bounds of its channel;
// a NaN in a later key shows in the mean alone. INVALID_ARGUMENT by CheckBlockBounds.
struct BlockBoundsOp {
  BlockBoundsSizes sizes;
  const KeyBlock* blocks = nullptr;
  friend bool operator==(const BlockBoundsOp&, const BlockBoundsOp&) = default;
};

}  // namespace recollect::kernels
