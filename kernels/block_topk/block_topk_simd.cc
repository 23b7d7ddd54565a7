#include "kernels/block_topk/block_topk.h"
#include "kernels/cpu/simd.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {

void BlockScores(OpContext&, const float* q, int64_t width, const float* low, const float* high,
                 int64_t stride, int64_t blocks, float* scores) {
  const int rest = static_cast<int>(width % kLanes);
  const int64_t whole = width - rest;
  for (int64_t b = 0; b < blocks; ++b, low += stride, high += stride) {
    Vec sum = Zero();
    for (int64_t i = 0; i < whole; i += kLanes) {
      const Vec v = Load(q + i);
      sum = Add(sum, Max(Mul(v, Load(low + i)), Mul(v, Load(high + i))));
    }
    if (rest > 0) {
      const Vec v = LoadFirst(q + whole, rest);
      sum = Add(sum,
                Max(Mul(v, LoadFirst(low + whole, rest)), Mul(v, LoadFirst(high + whole, rest))));
    }
    scores[b] = SumOf(sum);
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
