// The thread blocks of a sample on a device. A logit and its index are packed into one number
// (PackChoice), and nothing is sorted: the last number of a run of the best is found digit by
// digit, from the total weights of the numbers that begin with each possible next digit. Weights
// are integers, so that any order of adding gives the same result.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/cuda/cuda_order.h"
#include "kernels/sample/sample_operation.h"
#include "kernels/sample/sample_weights.h"

namespace recollect::kernels::cuda {

constexpr int kSampleThreads = 1024;
constexpr int kSampleWarp = 32;
constexpr int kSamplePiece = 4;
constexpr int kIndexBits = 32;
// A row is read once for each digit: more bits mean fewer passes and more sums.
constexpr int kDigitBits = 4;
constexpr int kDigits = 1 << kDigitBits;
static_assert(kDigits * kSampleWarp <= kSampleThreads, "each thread clears one sum");

struct SampleShared {
  uint64_t best[kSampleThreads];
  uint64_t sums[kDigits][kSampleWarp];  // a column for each lane, so that a warp's do not collide
  uint64_t totals[kDigits];
};

// The row that a thread block works on.
template <typename Block>
struct SampleRow {
  Block& block;
  SampleShared& shared;
  const SampleOp& op;
  int64_t row;
};

// Calls function(packed) for the row's logits that may be chosen, each in one thread.
template <typename Function>
RECOLLECT_HD void ForEachChoice(const SampleOp& op, int64_t row, int t, Function function) {
  const float* const logits = op.logits + row * op.vocab;
  for (int64_t first = t * kSamplePiece; first < op.vocab; first += kSampleThreads * kSamplePiece) {
    float numbers[kSamplePiece];
    ReadFour(logits + first, op.vocab - first, numbers);
    RECOLLECT_UNROLL
    for (int i = 0; i < kSamplePiece; ++i) {
      const int64_t index = first + i;
      if (index >= op.vocab || index == op.never.first || index == op.never.second) continue;
      const uint64_t packed = PackChoice(numbers[i], static_cast<int32_t>(index));
      if (packed != 0) function(packed);
    }
  }
}

// The best of the row; 0: there is none.
template <typename Block>
RECOLLECT_HD uint64_t FindBest(const SampleRow<Block>& of) {
  SampleShared& shared = of.shared;
  of.block.Phase([&](int t) {
    uint64_t best = 0;
    ForEachChoice(of.op, of.row, t, [&](uint64_t packed) { best = packed > best ? packed : best; });
    shared.best[t] = best;
  });
  const auto join = [&](int count, int into) {
    of.block.Phase([&](int t) {
      if (t >= into) return;
      for (int i = t + into; i < count; i += into) {
        if (shared.best[i] > shared.best[t]) shared.best[t] = shared.best[i];
      }
    });
  };
  join(kSampleThreads, kSampleWarp);
  join(kSampleWarp, 1);
  return shared.best[0];
}

// Adds up the weights of the row's numbers >= lowest that begin with `found`, for each digit at
// `shift`, in shared.totals.
template <typename Block, typename Weigh>
RECOLLECT_HD void WeighDigits(const SampleRow<Block>& of, uint64_t lowest, uint64_t found,
                              int shift, Weigh weigh) {
  SampleShared& shared = of.shared;
  of.block.Phase([&](int t) {
    if (t < kDigits * kSampleWarp) shared.sums[t / kSampleWarp][t % kSampleWarp] = 0;
  });
  of.block.Phase([&](int t) {
    // Neighbours often have the same digit or no weight: a run of them is added to shared memory
    // once.
    uint64_t sum = 0, digit = 0;
    const auto add = [&] {
      if (sum != 0) of.block.AddTo(&shared.sums[digit][t % kSampleWarp], sum);
      sum = 0;
    };
    ForEachChoice(of.op, of.row, t, [&](uint64_t packed) {
      const uint64_t begins = packed >> shift;
      if (packed < lowest || begins / kDigits != found) return;
      if (begins % kDigits != digit) add();
      digit = begins % kDigits;
      sum += weigh(packed);
    });
    add();
  });
  of.block.Phase([&](int t) {
    if (t >= kDigits) return;
    uint64_t total = 0;
    for (int lane = 0; lane < kSampleWarp; ++lane) total += shared.sums[t][lane];
    shared.totals[t] = total;
  });
}

// The last number of the shortest run of the row's best that together weigh at least enough(total
// weight). Numbers below `lowest` do not count.
template <typename Block, typename Weigh, typename Enough>
RECOLLECT_HD uint64_t FindEnd(const SampleRow<Block>& of, uint64_t lowest, Weigh weigh,
                              Enough enough) {
  constexpr int kTop = 64 - kDigitBits;
  const uint64_t* const totals = of.shared.totals;
  uint64_t found = 0, before = 0, wanted = 0;
  for (int shift = kTop; shift >= 0; shift -= kDigitBits) {
    int digit = kDigits - 1;
    // The complements of all indices begin with this digit, the highest.
    if (shift >= kIndexBits || static_cast<uint64_t>(of.op.vocab - 1) >> shift != 0) {
      WeighDigits(of, lowest, found, shift, weigh);
      if (shift == kTop) {
        uint64_t all = 0;
        for (int i = 0; i < kDigits; ++i) all += totals[i];
        wanted = enough(all);
      }
      while (digit > 0 && before + totals[digit] < wanted) before += totals[digit--];
    }
    found = found * kDigits + static_cast<uint64_t>(digit);
  }
  return found;
}

template <typename Block>
RECOLLECT_HD uint64_t Draw(const SampleRow<Block>& of, const SampleSettings& settings,
                           uint64_t best) {
  const float greatest = LogitOf(best);
  const auto weigh = [&](uint64_t packed) {
    return WeightOf(LogitOf(packed), greatest, settings.temperature);
  };
  uint64_t lowest = 0;
  if (settings.top_k > 0) {
    const auto most = static_cast<uint64_t>(settings.top_k);
    lowest = FindEnd(
        of, lowest, [](uint64_t) { return uint64_t{1}; },
        [&](uint64_t all) { return most < all ? most : all; });
  }
  if (settings.top_p < 1) {
    lowest = FindEnd(of, lowest, weigh, [&](uint64_t all) { return ShareOf(settings.top_p, all); });
  }
  return FindEnd(of, lowest, weigh,
                 [&](uint64_t all) { return WeightBefore(settings.draw, all) + 1; });
}

template <typename Block>
RECOLLECT_HD void RunSample(const SampleRow<Block>& of) {
  const SampleSettings settings = of.op.settings[of.row];
  uint64_t choice = FindBest(of);
  if (choice != 0 && settings.temperature != 0) choice = Draw(of, settings, choice);
  of.block.Run([&](int t) {
    if (t == 0) of.op.choices[of.row] = ChoiceOf(choice);
  });
}

struct SampleBlocks : Blocks<kSampleThreads, SampleShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const SampleOp& op, BlockIndex at) {
    RunSample<Block>({block, shared, op, at.x});
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const SampleOp& op) {
  RETURN_IF_ERROR(CheckRows("sample", {op.rows, op.vocab}));
  return launch(SampleBlocks{}, "sample", {.x = op.rows}, op);
}

}  // namespace recollect::kernels::cuda
