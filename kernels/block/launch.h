// The launches of an operation, written once for a GPU (kernels/cuda/cuda_launch.h) and for tests
// on the host (tests/kernels/device/host_launches.h). NAME_kernel.h says what blocks run, and ends
// with LaunchOp, which says how many of them:
//   struct RopeBlocks : Blocks<kRopeThreads> {
//     template <typename Block>
//     static RECOLLECT_HD void Run(Block& block, NoShared&, const RopeOp& op, BlockIndex at) { … }
//   };
//   template <typename Launcher>
//   absl::Status LaunchOp(const Launcher& launch, const RopeOp& op) {
//     RETURN_IF_ERROR(CheckRows("RoPE", op.sizes, 2));
//     return launch(RopeBlocks{}, "RoPE", {.x = CeilDiv(op.sizes.rows, kRopeThreads)}, op);
//   }
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "base/status.h"
#include "kernels/block/check_sizes.h"
#include "kernels/block/thread_block.h"

namespace recollect::kernels::cuda {

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct NoShared {};

// The blocks of a launch have threads, shared memory, and a least number that a multiprocessor
// holds, which limits their registers; 0: as the compiler likes.
template <int kOfThreads, typename OfShared = NoShared, int kOfLeast = 0>
struct Blocks {
  static constexpr int kThreads = kOfThreads, kLeast = kOfLeast;
  using Shared = OfShared;
};

// The number of a block in its grid.
struct BlockIndex {
  int64_t x;
  int y, z;
};

// How many blocks a launch has; none: nothing runs. `threads` of each, if not Blocks::kThreads.
struct BlockGrid {
  int64_t x = 1, y = 1, z = 1;
  int threads = 0;
};

template <typename T>
std::span<const T> ArrayOf(const T* first, int64_t count) {
  return {first, static_cast<size_t>(count)};
}

// A Launcher also has
//   CheckArrays(check): what check() returns, where the host can read the operation's arrays
//   Fits(blocks): whether a block can have so much shared memory

}  // namespace recollect::kernels::cuda
