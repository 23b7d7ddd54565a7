#include "kernels/cpu/simd.h"
#include "kernels/gated_scan/gated_scan.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

// s = g s + (1 - g) x for kVecs vectors of channels, all rows; only the one Fma per row waits for
// the row before it.
template <int kVecs>
RECOLLECT_INLINE void ScanChannels(const float* z, const float* bias, const float* x,
                                   int64_t stride, int64_t rows, float* state, float* y,
                                   int64_t y_stride) {
  Vec s[kVecs], b[kVecs];
  for (int u = 0; u < kVecs; ++u) {
    s[u] = Load(state + u * kLanes);
    b[u] = bias == nullptr ? Zero() : Load(bias + u * kLanes);
  }
  for (int64_t t = 0; t < rows; ++t) {
    for (int u = 0; u < kVecs; ++u) {
      const Vec g = Sigmoid(Add(Load(z + t * stride + u * kLanes), b[u]));
      const Vec in = Mul(Sub(Set(1.0f), g), Load(x + t * stride + u * kLanes));
      s[u] = Fma(g, s[u], in);
      Store(y + t * y_stride + u * kLanes, s[u]);
    }
  }
  for (int u = 0; u < kVecs; ++u) Store(state + u * kLanes, s[u]);
}

}  // namespace

void GatedScan(OpContext&, const float* z, const float* bias, const float* x, int64_t stride,
               int64_t rows, int64_t channels, float* state, float* y, int64_t y_stride) {
  constexpr int kVecs = 2;
  int64_t c = 0;
  const auto bias_at = [bias](int64_t i) { return bias == nullptr ? nullptr : bias + i; };
  for (; c + kVecs * kLanes <= channels; c += kVecs * kLanes) {
    ScanChannels<kVecs>(z + c, bias_at(c), x + c, stride, rows, state + c, y + c, y_stride);
  }
  for (; c + kLanes <= channels; c += kLanes) {
    ScanChannels<1>(z + c, bias_at(c), x + c, stride, rows, state + c, y + c, y_stride);
  }
  if (c < channels) {
    const int rest = static_cast<int>(channels - c);
    Vec s = LoadFirst(state + c, rest);
    const Vec b = bias == nullptr ? Zero() : LoadFirst(bias + c, rest);
    for (int64_t t = 0; t < rows; ++t) {
      const Vec g = Sigmoid(Add(LoadFirst(z + t * stride + c, rest), b));
      const Vec in = Mul(Sub(Set(1.0f), g), LoadFirst(x + t * stride + c, rest));
      s = Fma(g, s, in);
      StoreFirst(y + t * y_stride + c, s, rest);
    }
    StoreFirst(state + c, s, rest);
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
