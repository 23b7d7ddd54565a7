// The thread blocks of copies on a device. A warp takes one slice of one copy: piece s of it, piece
// s + slices and so on. Neighbouring warps have neighbouring pieces.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/copy/copy_plan.h"

namespace recollect::kernels::cuda {

constexpr int kCopyThreads = 256;
constexpr int kCopyWarp = 32;
constexpr int kCopyAhead = 4;  // words whose loads a lane has in flight

// The type of the data does not matter: bits are copied unchanged.
using CopyWord = uint32_t;
using CopyFour = Four<CopyWord>;
constexpr int64_t kCopyWarpBytes = kCopyAhead * kCopyWarp * int64_t{sizeof(CopyFour)};

struct CopyArgs {
  CopyPlan plan;
  const DeviceCopy* copies = nullptr;
};

// The host's compiler may assume that floats are not read as words; reading them as bytes is
// allowed.
template <typename Word>
RECOLLECT_HD Word ReadWord(const Word* from) {
#if defined(__CUDA_ARCH__)
  return *from;
#else
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
#endif
}

template <typename Word>
RECOLLECT_HD void WriteWord(Word* to, const Word& word) {
#if defined(__CUDA_ARCH__)
  *to = word;
#else
  std::memcpy(to, &word, sizeof(word));
#endif
}

template <typename Word>
RECOLLECT_HD void CopySlice(const DeviceCopy& copy, int64_t slice, int64_t slices, int lane) {
  constexpr int64_t kPiece = kCopyAhead * kCopyWarp;
  const Word* const from = static_cast<const Word*>(copy.from);
  Word* const to = static_cast<Word*>(copy.to);
  const int64_t words = copy.bytes / static_cast<int64_t>(sizeof(Word));
  for (int64_t first = slice * kPiece + lane; first < words; first += slices * kPiece) {
    Word ahead[kCopyAhead];
    RECOLLECT_UNROLL
    for (int u = 0; u < kCopyAhead; ++u) {
      const int64_t i = first + u * kCopyWarp;
      ahead[u] = i < words ? ReadWord(from + i) : Word{};
    }
    RECOLLECT_UNROLL
    for (int u = 0; u < kCopyAhead; ++u) {
      const int64_t i = first + u * kCopyWarp;
      if (i < words) WriteWord(to + i, ahead[u]);
    }
  }
}

// Thread block `index`, a warp for each of its slices.
struct CopyBlocks : Blocks<kCopyThreads> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const CopyArgs& args, BlockIndex at) {
    const int64_t index = at.x;
    const int64_t slices = args.plan.slices;
    block.Run([&](int t) {
      const int64_t warp = index * (kCopyThreads / kCopyWarp) + t / kCopyWarp;
      const int64_t number = warp / slices;
      if (number >= args.plan.count) return;
      const DeviceCopy copy = args.copies[number];
      const bool aligned =
          IsAligned(copy.from) && IsAligned(copy.to) && copy.bytes % int64_t{sizeof(CopyFour)} == 0;
      if (aligned) {
        CopySlice<CopyFour>(copy, warp % slices, slices, t % kCopyWarp);
      } else {
        CopySlice<CopyWord>(copy, warp % slices, slices, t % kCopyWarp);
      }
    });
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const CopyOp& op) {
  ASSIGN_OR_RETURN(const CopyPlan plan, PlanCopy(op.count, op.most_bytes));
  RETURN_IF_ERROR(
      launch.CheckArrays([&] { return CheckCopies(ArrayOf(op.copies, op.count), op.most_bytes); }));
  const int64_t blocks = CeilDiv(plan.count * plan.slices, kCopyThreads / kCopyWarp);
  return launch(CopyBlocks{}, "copies", {.x = blocks}, CopyArgs{plan, op.copies});
}

}  // namespace recollect::kernels::cuda
