// Tables of implementations. Dispatch, tests and benchmarks all walk the same table of an op, so
// what is not tested cannot be selected.
#ifndef RECOLLECT_KERNELS_CPU_DISPATCH_H_
#define RECOLLECT_KERNELS_CPU_DISPATCH_H_

#include <span>

#include "kernels/block_topk/block_topk.h"
#include "kernels/cpu/op_context.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/gated_scan/gated_scan.h"
#include "kernels/gca/gca.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/range_attention/range_attention.h"
#include "kernels/rope/rope.h"

namespace recollect::kernels {

template <typename Function>
struct Implementation {
  const char* name;
  Isa isa;  // the least that it needs
  Function* function;
};

// Scores of keys[count, width] against query[width], already scaled by 1 / sqrt(width).
using LandmarkScoresFunction = void(const float* query, int64_t width, const Bf16* keys,
                                    int64_t count, float* scores);

// Ordered from the least demanding; the reference is first.
std::span<const Implementation<decltype(RmsNorm)>> RmsNormImplementations();
std::span<const Implementation<decltype(SwiGlu)>> SwiGluImplementations();
std::span<const Implementation<decltype(GeGlu)>> GeGluImplementations();
std::span<const Implementation<decltype(Gelu)>> GeluImplementations();
std::span<const Implementation<decltype(SigmoidGate)>> SigmoidGateImplementations();
std::span<const Implementation<decltype(LogSumExp)>> LogSumExpImplementations();
std::span<const Implementation<decltype(Add)>> AddImplementations();
std::span<const Implementation<decltype(RoundToBf16)>> RoundToBf16Implementations();
std::span<const Implementation<decltype(Rope)>> RopeImplementations();
std::span<const Implementation<decltype(GatedScan)>> GatedScanImplementations();
std::span<const Implementation<decltype(RangeAttention)>> RangeAttentionImplementations();
std::span<const Implementation<decltype(Features)>> FeaturesImplementations();
std::span<const Implementation<decltype(LinearAttention)>> LinearAttentionImplementations();
std::span<const Implementation<decltype(Gca)>> GcaImplementations();
std::span<const Implementation<decltype(BlockScores)>> BlockScoresImplementations();
std::span<const Implementation<LandmarkScoresFunction>> LandmarkScoresImplementations();

// The most demanding implementation that `isa` allows.
template <typename Function>
Function* Select(std::span<const Implementation<Function>> table, Isa isa) {
  Function* best = table[0].function;
  for (const Implementation<Function>& entry : table) {
    if (entry.isa <= isa) best = entry.function;
  }
  return best;
}

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_CPU_DISPATCH_H_
