#include "kernels/cpu/simd.h"
#include "kernels/sample/row_greatest.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {

// Max returns its second argument for NaN.
float RowGreatest(OpContext&, const float* x, int64_t count) {
  constexpr int kVecs = 4;
  Vec most[kVecs];
  for (Vec& vec : most) vec = Set(-__builtin_inff());
  int64_t i = 0;
  for (; i + kVecs * kLanes <= count; i += kVecs * kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) most[v] = Max(Load(x + i + v * kLanes), most[v]);
  }
  float greatest = MaxOf(Max(Max(most[0], most[1]), Max(most[2], most[3])));
  for (; i < count; ++i) greatest = x[i] > greatest ? x[i] : greatest;
  return greatest;
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
