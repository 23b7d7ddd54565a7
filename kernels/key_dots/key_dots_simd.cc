#include "kernels/cpu/simd.h"
#include "kernels/key_dots/key_dots.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

// Sums that run side by side, so that none waits for itself.
constexpr int kVecs = 4;

// Writes the dots of kVecs vectors of keys, the first of which are `at`.
RECOLLECT_INLINE void SumVecs(const float* q, const uint16_t* keys, int64_t rows, int64_t width,
                              const int64_t at[kVecs], float* dots) {
  Vec sum[kVecs];
  for (Vec& of_keys : sum) of_keys = Zero();
  for (int64_t i = 0; i < width; ++i, keys += rows) {
    const Vec x = Set(q[i]);
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) sum[v] = Add(sum[v], Mul(x, LoadBf16(keys + at[v])));
  }
  for (int v = 0; v < kVecs; ++v) Store(dots + at[v], sum[v]);
}

}  // namespace

// The last vectors overlap those before them.
void KeyDots(OpContext&, const float* q, const Bf16* keys, int64_t rows, int64_t width,
             float* dots) {
  const auto* const bits = reinterpret_cast<const uint16_t*>(keys);
  if (rows < kLanes) {
    for (int64_t r = 0; r < rows; ++r) {
      float sum = 0;
      for (int64_t i = 0; i < width; ++i) {
        const uint32_t wide = static_cast<uint32_t>(bits[i * rows + r]) << 16;
        float key;
        __builtin_memcpy(&key, &wide, sizeof(key));
        sum += q[i] * key;
      }
      dots[r] = sum;
    }
    return;
  }
  for (int64_t first = 0; first < rows; first += kVecs * kLanes) {
    int64_t at[kVecs];
    for (int v = 0; v < kVecs; ++v) {
      const int64_t next = first + v * kLanes;
      at[v] = next < rows - kLanes ? next : rows - kLanes;
    }
    SumVecs(q, bits, rows, width, at, dots);
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
