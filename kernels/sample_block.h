// The thread blocks of a sample on a device (kernels/sample_cuda.h), run by the kernel and, step by
// step, by host tests (kernels/thread_block.h). A logit and its index make one number (PackChoice),
// and nothing is sorted: the number that ends a run of the best is found digit by digit, from the
// weights of all that begin with each next digit. Weights are whole numbers, so that any order of
// adding them finds the same one.
#ifndef RECOLLECT_KERNELS_SAMPLE_BLOCK_H_
#define RECOLLECT_KERNELS_SAMPLE_BLOCK_H_

#include "kernels/sample.h"
#include "kernels/sample_weights.h"
#include "kernels/thread_block.h"

namespace recollect::kernels::cuda {

// A row is read by one block: many threads, each with several loads in flight.
constexpr int kSampleThreads = 1024;
constexpr int kSampleWarp = 32;
constexpr int kSampleAhead = 4;
constexpr int kSamplePiece = 4;
constexpr int kDigitBits = 4;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kIndexBits = 32;

struct SampleShared {
  uint64_t best[kSampleThreads];
  uint64_t sums[kDigits][kSampleWarp];  // a column for each lane, so that a warp's do not collide
  uint64_t totals[kDigits];
};

struct SampleArgs {
  int32_t vocab = 0;
  NeverChosen never;
  const float* logits = nullptr;             // [rows, vocab]
  const SampleSettings* settings = nullptr;  // [rows]
  int32_t* choices = nullptr;                // [rows]
};

// function(packed) of the row's logits that may be chosen, each in one thread.
template <typename Function>
RECOLLECT_HD void ForEachChoice(const SampleArgs& args, int64_t row, int t, Function function) {
  constexpr int64_t kStep = kSampleThreads * kSamplePiece;
  const int64_t vocab = args.vocab;
  const float* const logits = args.logits + row * vocab;
  for (int64_t first = t * kSamplePiece; first < vocab; first += kSampleAhead * kStep) {
    float numbers[kSampleAhead][kSamplePiece];
    RECOLLECT_UNROLL
    for (int u = 0; u < kSampleAhead; ++u) {
      ReadFour(logits + first + u * kStep, vocab - first - u * kStep, numbers[u]);
    }
    RECOLLECT_UNROLL
    for (int i = 0; i < kSampleAhead * kSamplePiece; ++i) {
      const int64_t index = first + i / kSamplePiece * kStep + i % kSamplePiece;
      if (index >= vocab || index == args.never.first || index == args.never.second) continue;
      const uint64_t packed =
          PackChoice(numbers[i / kSamplePiece][i % kSamplePiece], static_cast<int32_t>(index));
      if (packed != 0) function(packed);
    }
  }
}

// The best of the row, in shared.best[0]; 0: there is none.
template <typename Block>
RECOLLECT_HD void FindBest(Block& block, SampleShared& shared, const SampleArgs& args,
                           int64_t row) {
  block.Phase([&](int t) {
    uint64_t best = 0;
    ForEachChoice(args, row, t, [&](uint64_t packed) { best = packed > best ? packed : best; });
    shared.best[t] = best;
  });
  const auto join = [&](int count, int into) {
    block.Phase([&](int t) {
      if (t >= into) return;
      for (int i = t + into; i < count; i += into) {
        if (shared.best[i] > shared.best[t]) shared.best[t] = shared.best[i];
      }
    });
  };
  join(kSampleThreads, kSampleWarp);
  join(kSampleWarp, 1);
}

// The last of the shortest run of the row's best, none below `lowest`, that weighs
// enough(weight of all) or more together.
template <typename Block, typename Weigh, typename Enough>
RECOLLECT_HD uint64_t FindEnd(Block& block, SampleShared& shared, const SampleArgs& args,
                              int64_t row, uint64_t lowest, Weigh weigh, Enough enough) {
  constexpr int kTop = 64 - kDigitBits;
  uint64_t found = 0, before = 0, wanted = 0;
  for (int shift = kTop; shift >= 0; shift -= kDigitBits) {
    if (shift < kIndexBits && static_cast<uint64_t>(args.vocab - 1) >> shift == 0) {
      // Complements of indices, which all begin so.
      found = found << kDigitBits | (kDigits - 1);
      continue;
    }
    block.Phase([&](int t) {
      if (t < kDigits * kSampleWarp) shared.sums[t / kSampleWarp][t % kSampleWarp] = 0;
    });
    block.Phase([&](int t) {
      ForEachChoice(args, row, t, [&](uint64_t packed) {
        if (packed < lowest || (shift < kTop && packed >> (shift + kDigitBits) != found)) return;
        block.AddTo(&shared.sums[packed >> shift & (kDigits - 1)][t % kSampleWarp], weigh(packed));
      });
    });
    block.Phase([&](int t) {
      if (t >= kDigits) return;
      uint64_t total = 0;
      for (int lane = 0; lane < kSampleWarp; ++lane) total += shared.sums[t][lane];
      shared.totals[t] = total;
    });
    if (shift == kTop) {
      uint64_t all = 0;
      for (int i = 0; i < kDigits; ++i) all += shared.totals[i];
      wanted = enough(all);
    }
    int digit = kDigits - 1;
    while (digit > 0 && before + shared.totals[digit] < wanted) before += shared.totals[digit--];
    found = found << kDigitBits | static_cast<uint64_t>(digit);
  }
  return found;
}

template <typename Block>
RECOLLECT_HD void RunSample(Block& block, SampleShared& shared, const SampleArgs& args,
                            int64_t row) {
  FindBest(block, shared, args, row);
  const SampleSettings settings = args.settings[row];
  uint64_t choice = shared.best[0];
  if (choice != 0 && settings.temperature != 0) {
    const float greatest = LogitOf(choice);
    const auto weigh = [&](uint64_t packed) {
      return WeightOf(LogitOf(packed), greatest, settings.temperature);
    };
    uint64_t lowest = 0;
    if (settings.top_k > 0) {
      const auto most = static_cast<uint64_t>(settings.top_k);
      lowest = FindEnd(
          block, shared, args, row, lowest, [](uint64_t) { return uint64_t{1}; },
          [&](uint64_t all) { return most < all ? most : all; });
    }
    if (settings.top_p < 1) {
      lowest = FindEnd(block, shared, args, row, lowest, weigh,
                       [&](uint64_t all) { return ShareOf(settings.top_p, all); });
    }
    choice = FindEnd(block, shared, args, row, lowest, weigh,
                     [&](uint64_t all) { return WeightBefore(settings.draw, all) + 1; });
  }
  block.Run([&](int t) {
    if (t == 0) args.choices[row] = ChoiceOf(choice);
  });
}

}  // namespace recollect::kernels::cuda

#endif  // RECOLLECT_KERNELS_SAMPLE_BLOCK_H_
