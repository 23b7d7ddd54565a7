#include "kernels/cpu/simd.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {

void RotateHalves(const float* cosines, const float* sines, int heads, int head_dim, float* row) {
  const int half = head_dim / 2;
  const int rest = half % kLanes;
  const int whole = half - rest;
  for (int h = 0; h < heads; ++h, row += head_dim) {
    for (int j = 0; j < whole; j += kLanes) {
      const Vec c = Load(cosines + j), s = Load(sines + j);
      const Vec a = Load(row + j), b = Load(row + half + j);
      Store(row + j, Fnma(b, s, Mul(a, c)));
      Store(row + half + j, Fma(a, s, Mul(b, c)));
    }
    if (rest > 0) {
      const Vec c = LoadFirst(cosines + whole, rest), s = LoadFirst(sines + whole, rest);
      const Vec a = LoadFirst(row + whole, rest), b = LoadFirst(row + half + whole, rest);
      StoreFirst(row + whole, Fnma(b, s, Mul(a, c)), rest);
      StoreFirst(row + half + whole, Fma(a, s, Mul(b, c)), rest);
    }
  }
}

void RotatePairs(const float* cosines, const float* sines, int heads, int head_dim, float* row) {
  const int rest = head_dim % kLanes;
  const int whole = head_dim - rest;
  for (int h = 0; h < heads; ++h, row += head_dim) {
    for (int j = 0; j < whole; j += kLanes) {
      const Vec x = Load(row + j);
      Store(row + j, Fma(SwapPairs(x), Load(sines + j), Mul(x, Load(cosines + j))));
    }
    if (rest > 0) {
      const Vec x = LoadFirst(row + whole, rest), s = LoadFirst(sines + whole, rest);
      const Vec c = LoadFirst(cosines + whole, rest);
      StoreFirst(row + whole, Fma(SwapPairs(x), s, Mul(x, c)), rest);
    }
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
