#include "kernels/cpu/simd.h"
#include "kernels/sample/sample_total.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

constexpr float kGreatestWeight = 4294967296.0f;  // 2^32, as of sample_weights.h

// The operations of cuda::Exp (kernels/cuda/cuda_math.h), whose two factors of a power of two are
// one here: results of exponents in [-80, 0] are normal numbers.
RECOLLECT_INLINE Vec Weights(Vec exponent) {
  const Vec n = Round(Mul(exponent, Set(1.44269504f)));
  Vec r = Fma(n, Set(-0.693359375f), exponent);
  r = Fma(n, Set(2.12194440e-4f), r);
  Vec p = Set(1.9875691500e-4f);
  p = Fma(p, r, Set(1.3981999507e-3f));
  p = Fma(p, r, Set(8.3334519073e-3f));
  p = Fma(p, r, Set(4.1665795894e-2f));
  p = Fma(p, r, Set(1.6666665459e-1f));
  p = Fma(p, r, Set(5.0000001201e-1f));
  p = Add(Fma(p, Mul(r, r), r), Set(1.0f));
  return Mul(ScaleByPowerOfTwo(p, n), Set(kGreatestWeight));
}

}  // namespace

uint64_t SampleTotal(OpContext&, const float* logits, int64_t count, float greatest,
                     float temperature) {
  // What weighs less than a unit becomes 0 below. Max returns its second argument for NaN.
  constexpr float kLeastExponent = -80.0f;
  int64_t total = 0;
  for (int64_t i = 0; i < count; i += kLanes) {
    const int lanes = static_cast<int>(count - i < kLanes ? count - i : kLanes);
    const Vec some = lanes == kLanes ? Load(logits + i) : LoadFirst(logits + i, lanes);
    const Vec exponent = Div(Sub(some, Set(greatest)), Set(temperature));
    alignas(64) float weights[kLanes];
    Store(weights, Weights(Max(exponent, Set(kLeastExponent))));
    for (int lane = 0; lane < lanes; ++lane) total += static_cast<int64_t>(weights[lane]);
  }
  return static_cast<uint64_t>(total);
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
