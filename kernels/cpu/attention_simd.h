// Code that range attention and GCA share: scores of a group of keys, and sums of weighted values.
// kDim is the head's width if the compiler knows it; otherwise kDim is 0 and `dim` is the width.
// The order of operations depends on the width alone.
#pragma once

#include "kernels/cpu/simd.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {

// Rows that walk the same keys together: 16 keys or values of a head are 4 KiB, so they stay in the
// first-level cache while the rows take turns.
constexpr int kRowBlock = 16;

// Keys and values are fp32 or the bits of bf16; widening is exact, so both give the same bits.
RECOLLECT_INLINE Vec LoadWide(const float* p) { return Load(p); }
RECOLLECT_INLINE Vec LoadWide(const uint16_t* p) { return LoadBf16(p); }
RECOLLECT_INLINE Vec LoadWideFirst(const float* p, int n) { return LoadFirst(p, n); }
RECOLLECT_INLINE Vec LoadWideFirst(const uint16_t* p, int n) { return LoadBf16First(p, n); }

// Lane i is q·key_i for i < count, 1 <= count <= kLanes; the other lanes repeat the last score.
// Keys are `stride` elements apart.
template <int kDim, typename Element>
RECOLLECT_INLINE Vec DotGroup(const float* q, const Element* keys, int64_t stride, int count,
                              int dim) {
  const Element* key[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) key[i] = keys + (i < count ? i : count - 1) * stride;
  Vec sum[kLanes];
  if constexpr (kDim > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      sum[i] = Mul(Load(q), LoadWide(key[i]));
#pragma GCC unroll 16
      for (int j = kLanes; j < kDim; j += kLanes) {
        sum[i] = Fma(Load(q + j), LoadWide(key[i] + j), sum[i]);
      }
    }
  } else {
    for (int i = 0; i < kLanes; ++i) sum[i] = Zero();
    int j = 0;
    for (; j + kLanes <= dim; j += kLanes) {
      const Vec part = Load(q + j);
      for (int i = 0; i < kLanes; ++i) sum[i] = Fma(part, LoadWide(key[i] + j), sum[i]);
    }
    if (j < dim) {
      const int rest = dim - j;
      const Vec part = LoadFirst(q + j, rest);
      for (int i = 0; i < kLanes; ++i) sum[i] = Fma(part, LoadWideFirst(key[i] + j, rest), sum[i]);
    }
  }
  return SumsOf(sum);
}

// out[0, dim) += Σ_j weights[j] values[j, :], one value after the other.
template <int kDim, typename Element>
RECOLLECT_INLINE void AddWeighted(const float* weights, const Element* values, int64_t stride,
                                  int64_t count, float* out, int dim) {
  if constexpr (kDim > 0) {
    constexpr int kVecs = kDim / kLanes;
    Vec sum[kVecs];
#pragma GCC unroll 16
    for (int u = 0; u < kVecs; ++u) sum[u] = Load(out + u * kLanes);
    for (int64_t j = 0; j < count; ++j) {
      const Vec weight = Set(weights[j]);
      const Element* value = values + j * stride;
#pragma GCC unroll 16
      for (int u = 0; u < kVecs; ++u) sum[u] = Fma(weight, LoadWide(value + u * kLanes), sum[u]);
    }
#pragma GCC unroll 16
    for (int u = 0; u < kVecs; ++u) Store(out + u * kLanes, sum[u]);
  } else {
    int d = 0;
    for (; d + kLanes <= dim; d += kLanes) {
      Vec sum = Load(out + d);
      for (int64_t j = 0; j < count; ++j) {
        sum = Fma(Set(weights[j]), LoadWide(values + j * stride + d), sum);
      }
      Store(out + d, sum);
    }
    if (d < dim) {
      const int rest = dim - d;
      Vec sum = LoadFirst(out + d, rest);
      for (int64_t j = 0; j < count; ++j) {
        sum = Fma(Set(weights[j]), LoadWideFirst(values + j * stride + d, rest), sum);
      }
      StoreFirst(out + d, sum, rest);
    }
  }
}

// The largest of scores[0, count) and `least`.
RECOLLECT_INLINE float MaxScore(const float* scores, int64_t count, float least) {
  Vec best = Set(least);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) best = Max(best, Load(scores + i));
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    best = Max(best, SelectFirst(rest, LoadFirst(scores + i, rest), Set(least)));
  }
  return MaxOf(best);
}

// scores[i] becomes exp(scores[i] - shift); returns their sum.
RECOLLECT_INLINE float ExpAndSum(float* scores, int64_t count, float shift) {
  Vec sum = Zero();
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Vec e = Exp(Sub(Load(scores + i), Set(shift)));
    Store(scores + i, e);
    sum = Add(sum, e);
  }
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    const Vec e = Exp(Sub(LoadFirst(scores + i, rest), Set(shift)));
    StoreFirst(scores + i, e, rest);
    sum = Add(sum, SelectFirst(rest, e, Zero()));
  }
  return SumOf(sum);
}

RECOLLECT_INLINE void Scale(float* x, int64_t count, float by) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(x + i, Mul(Load(x + i), Set(by)));
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    StoreFirst(x + i, Mul(LoadFirst(x + i, rest), Set(by)), rest);
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
