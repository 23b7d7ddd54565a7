// The thread blocks of the greedy choice on a device (kernels/argmax_cuda.h), run by the kernel
// and, step by step, by host tests (kernels/thread_block.h). A logit and its index make one number,
// which is the greater, the better, so that any order of comparing finds the same one.
#ifndef RECOLLECT_KERNELS_ARGMAX_BLOCK_H_
#define RECOLLECT_KERNELS_ARGMAX_BLOCK_H_

#include "kernels/argmax.h"
#include "kernels/thread_block.h"

namespace recollect::kernels::cuda {

// A row is read by one block: many threads, each with several loads in flight.
constexpr int kArgmaxThreads = 1024;
constexpr int kArgmaxWarp = 32;
constexpr int kArgmaxAhead = 4;
constexpr int kArgmaxPiece = 4;

struct ArgmaxShared {
  uint64_t best[kArgmaxThreads];
};

struct ArgmaxArgs {
  int32_t vocab = 0;
  NeverChosen never;
  const float* logits = nullptr;  // [rows, vocab]
  int32_t* choices = nullptr;     // [rows]
};

// Greater for a greater logit, then for a lower index; 0 for NaN and -inf, which nobody chooses.
RECOLLECT_HD uint64_t PackChoice(float logit, int32_t index) {
  if (!(logit > -Infinity())) return 0;
  const uint32_t bits = logit == 0 ? 0u : BitsOf(logit);  // zeros of both signs are equal
  const uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(order) << 32 | ~static_cast<uint32_t>(index);
}

RECOLLECT_HD int32_t ChoiceOf(uint64_t packed) {
  return packed == 0 ? -1 : static_cast<int32_t>(~static_cast<uint32_t>(packed));
}

template <typename Block>
RECOLLECT_HD void RunArgmax(Block& block, ArgmaxShared& shared, const ArgmaxArgs& args,
                            int64_t row) {
  const int64_t vocab = args.vocab;
  const float* const logits = args.logits + row * vocab;
  block.Phase([&](int t) {
    constexpr int64_t kStep = kArgmaxThreads * kArgmaxPiece;
    uint64_t best = 0;
    for (int64_t first = t * kArgmaxPiece; first < vocab; first += kArgmaxAhead * kStep) {
      float numbers[kArgmaxAhead][kArgmaxPiece];
      RECOLLECT_UNROLL
      for (int u = 0; u < kArgmaxAhead; ++u) {
        ReadFour(logits + first + u * kStep, vocab - first - u * kStep, numbers[u]);
      }
      RECOLLECT_UNROLL
      for (int i = 0; i < kArgmaxAhead * kArgmaxPiece; ++i) {
        const int64_t index = first + i / kArgmaxPiece * kStep + i % kArgmaxPiece;
        if (index >= vocab || index == args.never.first || index == args.never.second) continue;
        const uint64_t packed =
            PackChoice(numbers[i / kArgmaxPiece][i % kArgmaxPiece], static_cast<int32_t>(index));
        if (packed > best) best = packed;
      }
    }
    shared.best[t] = best;
  });
  block.Phase([&](int t) {
    if (t >= kArgmaxWarp) return;
    for (int i = t + kArgmaxWarp; i < kArgmaxThreads; i += kArgmaxWarp) {
      if (shared.best[i] > shared.best[t]) shared.best[t] = shared.best[i];
    }
  });
  block.Run([&](int t) {
    if (t != 0) return;
    uint64_t best = 0;
    for (int i = 0; i < kArgmaxWarp; ++i) {
      if (shared.best[i] > best) best = shared.best[i];
    }
    args.choices[row] = ChoiceOf(best);
  });
}

}  // namespace recollect::kernels::cuda

#endif  // RECOLLECT_KERNELS_ARGMAX_BLOCK_H_
