// The thread blocks of a pointer's mix on a device. Each thread adds up its logits in order; then
// the threads' sums are added in pairs, from half the thread block apart down to 1 apart.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/pointer_mix/pointer_mix_operation.h"

namespace recollect::kernels::cuda {

constexpr int kPointerThreads = 256;

struct PointerShared {
  float numbers[kPointerThreads];
};

// Joins the threads' numbers by join(a, b); every thread gets the result.
template <typename Block, typename Join>
RECOLLECT_HD float JoinAll(Block& block, PointerShared& shared, Join join) {
  for (int apart = kPointerThreads / 2; apart > 0; apart /= 2) {
    block.Phase([&](int t) {
      if (t < apart) shared.numbers[t] = join(shared.numbers[t], shared.numbers[t + apart]);
    });
  }
  return shared.numbers[0];
}

struct PointerBlocks : Blocks<kPointerThreads, PointerShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const MixPointedOp& op,
                               BlockIndex at) {
    const int64_t row = at.x;
    float* const logits = op.logits + row * op.vocab;
    const int64_t begin = row == 0 ? 0 : op.ends[row - 1], end = op.ends[row];
    if (begin < end) {
      const auto each = [&](int t, auto function) {
        for (int64_t i = t; i < op.vocab; i += kPointerThreads) {
          if (i != op.sentinel) function(logits[i]);
        }
      };
      block.Phase([&](int t) {
        float most = -Infinity();
        each(t, [&](float logit) { most = Max(most, logit); });
        shared.numbers[t] = most;
      });
      const float most = JoinAll(block, shared, [](float a, float b) { return Max(a, b); });
      block.Barrier();  // all have read it
      block.Phase([&](int t) {
        float sum = 0;
        each(t, [&](float logit) { sum = Add(sum, Exp(Add(logit, -most))); });
        shared.numbers[t] = sum;
      });
      const float sum = JoinAll(block, shared, [](float a, float b) { return Add(a, b); });
      const float base = Add(Add(most, Log(sum)), -logits[op.sentinel]);
      block.Phase([&](int t) {
        for (int64_t i = begin + t; i < end; i += kPointerThreads) {
          const PointedToken& to = op.pointed[i];
          logits[to.token] = LogAddExp(logits[to.token], Add(to.score, base));
        }
      });
    }
    block.Run([&](int t) {
      if (t == 0) logits[op.sentinel] = -Infinity();
    });
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const MixPointedOp& op) {
  RETURN_IF_ERROR(CheckPointerRows({op.rows, op.vocab}, op.sentinel));
  return launch(PointerBlocks{}, "pointer mix", {.x = op.rows}, op);
}

}  // namespace recollect::kernels::cuda
