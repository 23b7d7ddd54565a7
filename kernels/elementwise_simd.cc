#include "kernels/simd.h"
#include "kernels/simd_ops.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {

void ConvertToBf16(const float* x, int64_t count, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) StoreBf16(y + i, Load(x + i));
  if (i < count) {
    uint16_t last[kLanes];
    StoreBf16(last, LoadFirst(x + i, static_cast<int>(count - i)));
    for (int64_t j = i; j < count; ++j) y[j] = last[j - i];
  }
}

void ConvertToFloat(const uint16_t* x, int64_t count, float* y) {
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

void RotateHeads(const float* cosines, const float* sines, int heads, int head_dim, float* row) {
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

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
