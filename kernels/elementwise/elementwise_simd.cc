#include "kernels/cpu/convert.h"
#include "kernels/cpu/simd.h"
#include "kernels/elementwise/elementwise.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

// x Φ(x) = max(x, 0) - u Φ(-u) with u = |x|, which adds nothing of opposite sign for x <= 0. By
// definition Φ(-u) = e^(-u²/2) E(u) with E(u) = erfcx(u / √2) / 2, a smooth function that falls
// like 1 / u: a polynomial in t = 1 / (1 + 0.35 u) without constant term, fitted to it on [0, 15]
// by weighted least squares, is within 3.3e-8 of it, relatively.
RECOLLECT_INLINE Vec GeluOf(Vec x) {
  // From 15 on Φ(-u) is 0 in fp32, and an infinite u would meet it. Min and Max return their second
  // argument when one is NaN.
  const Vec u = Min(Set(15.0f), Max(x, Sub(Zero(), x)));
  const Vec t = Div(Set(1.0f), Fma(Set(0.35f), u, Set(1.0f)));
  Vec p = Set(-2.9163809337e-2f);
  p = Fma(p, t, Set(1.4406025147e-1f));
  p = Fma(p, t, Set(-2.5590076401e-1f));
  p = Fma(p, t, Set(1.5939170746e-1f));
  p = Fma(p, t, Set(-2.3263047395e-2f));
  p = Fma(p, t, Set(1.0557448826e-1f));
  p = Fma(p, t, Set(1.1981557190e-1f));
  p = Fma(p, t, Set(1.3986432677e-1f));
  p = Fma(p, t, Set(1.3962125887e-1f));
  // u²/2 is up to 112, and an error of exp's argument is a relative error of the result: what its
  // rounding lost comes back as a factor.
  const Vec half = Mul(u, Set(0.5f));
  const Vec square = Mul(u, half);
  const Vec lost = Fnma(u, half, square);
  const Vec tail = Mul(Mul(Exp(Sub(Zero(), square)), Add(Set(1.0f), lost)), Mul(p, t));
  return Fnma(u, tail, Max(Zero(), x));
}

}  // namespace

void ConvertToBf16(OpContext&, const float* x, int64_t count, Bf16* bf16) {
  auto* y = reinterpret_cast<uint16_t*>(bf16);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) StoreBf16(y + i, Load(x + i));
  if (i < count) {
    uint16_t last[kLanes];
    StoreBf16(last, LoadFirst(x + i, static_cast<int>(count - i)));
    for (int64_t j = i; j < count; ++j) y[j] = last[j - i];
  }
}

void ConvertToFloat(OpContext&, const Bf16* bf16, int64_t count, float* y) {
  const auto* x = reinterpret_cast<const uint16_t*>(bf16);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(y + i, LoadBf16(x + i));
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    StoreFirst(y + i, LoadBf16First(x + i, rest), rest);
  }
}

void RoundToBf16(OpContext&, float* x, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(x + i, RoundBf16(Load(x + i)));
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    StoreFirst(x + i, RoundBf16(LoadFirst(x + i, rest)), rest);
  }
}

void Add(OpContext&, const float* x, int64_t count, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(y + i, Add(Load(y + i), Load(x + i)));
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    StoreFirst(y + i, Add(LoadFirst(y + i, rest), LoadFirst(x + i, rest)), rest);
  }
}

void RmsNorm(OpContext&, const float* x, const float* gain, float eps, int64_t rows, int64_t width,
             float* y) {
  const int rest = static_cast<int>(width % kLanes);
  const int64_t whole = width - rest;
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    // Four sums hide the latency of the adds; which lane an element lands in depends on width
    // alone.
    Vec sum[4] = {Zero(), Zero(), Zero(), Zero()};
    int64_t i = 0;
    for (; i + 4 * kLanes <= whole; i += 4 * kLanes) {
      for (int u = 0; u < 4; ++u) {
        const Vec v = Load(x + i + u * kLanes);
        sum[u] = Fma(v, v, sum[u]);
      }
    }
    for (; i < whole; i += kLanes) {
      const Vec v = Load(x + i);
      sum[0] = Fma(v, v, sum[0]);
    }
    if (rest > 0) {
      const Vec v = LoadFirst(x + i, rest);
      sum[1] = Fma(v, v, sum[1]);
    }
    const float mean =
        SumOf(Add(Add(sum[0], sum[1]), Add(sum[2], sum[3]))) / static_cast<float>(width);
    const Vec scale = Set(1.0f / __builtin_sqrtf(mean + eps));
    for (i = 0; i < whole; i += kLanes) {
      const Vec v = Mul(Load(x + i), scale);
      Store(y + i, gain == nullptr ? v : Mul(v, Load(gain + i)));
    }
    if (rest > 0) {
      const Vec v = Mul(LoadFirst(x + i, rest), scale);
      StoreFirst(y + i, gain == nullptr ? v : Mul(v, LoadFirst(gain + i, rest)), rest);
    }
  }
}

float LogSumExp(OpContext&, const float* x, int64_t count) {
  const int rest = static_cast<int>(count % kLanes);
  const int64_t whole = count - rest;
  float most = x[0];
  Vec greatest[2] = {Set(most), Set(most)};
  int64_t i = 0;
  for (; i + 2 * kLanes <= whole; i += 2 * kLanes) {
    greatest[0] = Max(greatest[0], Load(x + i));
    greatest[1] = Max(greatest[1], Load(x + i + kLanes));
  }
  for (; i < whole; i += kLanes) greatest[0] = Max(greatest[0], Load(x + i));
  most = MaxOf(Max(greatest[0], greatest[1]));
  for (; i < count; ++i) most = x[i] > most ? x[i] : most;
  const Vec base = Set(most);
  Vec sum[2] = {Zero(), Zero()};
  for (i = 0; i + 2 * kLanes <= whole; i += 2 * kLanes) {
    sum[0] = Add(sum[0], Exp(Sub(Load(x + i), base)));
    sum[1] = Add(sum[1], Exp(Sub(Load(x + i + kLanes), base)));
  }
  for (; i < whole; i += kLanes) sum[0] = Add(sum[0], Exp(Sub(Load(x + i), base)));
  float total = SumOf(Add(sum[0], sum[1]));
  if (rest > 0) {
    float last[kLanes];
    Store(last, Exp(Sub(LoadFirst(x + whole, rest), base)));
    for (int j = 0; j < rest; ++j) total += last[j];
  }
  return most + __builtin_logf(total);
}

void SwiGlu(OpContext&, const float* x, int64_t rows, int64_t width, float* y) {
  const int rest = static_cast<int>(width % kLanes);
  const int64_t whole = width - rest;
  for (int64_t r = 0; r < rows; ++r, x += 2 * width, y += width) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      const Vec gate = Load(x + i);
      Store(y + i, Mul(Mul(gate, Sigmoid(gate)), Load(x + width + i)));
    }
    if (rest > 0) {
      const Vec gate = LoadFirst(x + whole, rest);
      const Vec up = LoadFirst(x + width + whole, rest);
      StoreFirst(y + whole, Mul(Mul(gate, Sigmoid(gate)), up), rest);
    }
  }
}

void GeGlu(OpContext&, const float* x, int64_t rows, int64_t width, float* y) {
  const int rest = static_cast<int>(width % kLanes);
  const int64_t whole = width - rest;
  for (int64_t r = 0; r < rows; ++r, x += 2 * width, y += width) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      Store(y + i, Mul(GeluOf(Load(x + i)), Load(x + width + i)));
    }
    if (rest > 0) {
      const Vec up = LoadFirst(x + width + whole, rest);
      StoreFirst(y + whole, Mul(GeluOf(LoadFirst(x + whole, rest)), up), rest);
    }
  }
}

void Gelu(OpContext&, const float* x, int64_t count, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(y + i, GeluOf(Load(x + i)));
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    StoreFirst(y + i, GeluOf(LoadFirst(x + i, rest)), rest);
  }
}

void SigmoidGate(OpContext&, const float* gate, int64_t gate_stride, const float* x, int64_t rows,
                 int64_t width, float* y) {
  const int rest = static_cast<int>(width % kLanes);
  const int64_t whole = width - rest;
  for (int64_t r = 0; r < rows; ++r, gate += gate_stride, x += width, y += width) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      Store(y + i, Mul(Sigmoid(Load(gate + i)), Load(x + i)));
    }
    if (rest > 0) {
      const Vec v = Mul(Sigmoid(LoadFirst(gate + whole, rest)), LoadFirst(x + whole, rest));
      StoreFirst(y + whole, v, rest);
    }
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
