// Code that range attention and GCA share: scores of a group of keys, and sums of weighted values.
// kDim is the head's width if the compiler knows it; otherwise kDim is 0 and `dim` is the width.
// The order of operations depends on the width alone.
#pragma once

#include "kernels/cpu/simd.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {

// Rows that walk the same keys together, a multiple of two and three: 16 keys or values of a head
// are 4 KiB, so they stay in the first-level cache while the rows take turns.
constexpr int kRowBlock = 18;

// Keys and values are fp32 or the bits of bf16; widening is exact, so both give the same bits.
RECOLLECT_INLINE Vec LoadWide(const float* p) { return Load(p); }
RECOLLECT_INLINE Vec LoadWide(const uint16_t* p) { return LoadBf16(p); }
RECOLLECT_INLINE Vec LoadWideFirst(const float* p, int n) { return LoadFirst(p, n); }
RECOLLECT_INLINE Vec LoadWideFirst(const uint16_t* p, int n) { return LoadBf16First(p, n); }

// Lane i of dots[n] is q[n]·key_i for i < count, 1 <= count <= kLanes; the other lanes repeat the
// last score. Keys are `stride` elements apart. One query has a read for each product, and a core
// reads as many vectors as it multiplies; two share what is read of the keys.
template <int kDim, int kQueries, typename Element>
RECOLLECT_INLINE void DotGroups(const float* const q[kQueries], const Element* keys, int64_t stride,
                                int count, Vec dots[kQueries]) {
  const auto add = [](Vec a, Vec b) { return Add(a, b); };
  Vec fours[kQueries][kLanes / 4];
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
    const Element* four[4];
#pragma GCC unroll 4
    for (int m = 0; m < 4; ++m) four[m] = keys + (i + m < count ? i + m : count - 1) * stride;
    const float* part[kQueries];
#pragma GCC unroll 2
    for (int n = 0; n < kQueries; ++n) {
      part[n] = q[n];
      KeepApart(part[n]);
    }
    Vec sum[kQueries][4];
#pragma GCC unroll 16
    for (int j = 0; j < kDim; j += kLanes) {
#pragma GCC unroll 4
      for (int m = 0; m < 4; ++m) {
        Vec key = LoadWide(four[m] + j);
        Keep(key);
#pragma GCC unroll 2
        for (int n = 0; n < kQueries; ++n) {
          const Vec of_query = Load(part[n] + j);
          sum[n][m] = j == 0 ? Mul(of_query, key) : Fma(of_query, key, sum[n][m]);
        }
      }
    }
#pragma GCC unroll 2
    for (int n = 0; n < kQueries; ++n) fours[n][i / 4] = JoinFours(sum[n], add);
  }
#pragma GCC unroll 2
  for (int n = 0; n < kQueries; ++n) dots[n] = JoinQuarters(fours[n], add);
}

// The same of one query, of any width.
template <int kDim, typename Element>
RECOLLECT_INLINE Vec DotGroup(const float* q, const Element* keys, int64_t stride, int count,
                              int dim) {
  if constexpr (kDim > 0) {
    Vec dots;
    DotGroups<kDim, 1>(&q, keys, stride, count, &dots);
    return dots;
  }
  const Element* key[kLanes];
  Vec sum[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    key[i] = keys + (i < count ? i : count - 1) * stride;
    sum[i] = Zero();
  }
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
  return SumsOf(sum);
}

// out[n][0, kDim) += Σ_j weights[n][j] values[j, :], one value after the other. Sums of four
// vectors of three queries do not wait for each other, and take all but four of AVX2's registers.
template <int kDim, int kQueries, typename Element>
RECOLLECT_INLINE void AddWeightedTo(const float* const weights[kQueries], const Element* values,
                                    int64_t stride, int64_t count, float* const out[kQueries]) {
  constexpr int kMost = kQueries == 1 ? 8 : 4;
  constexpr int kVecs = kDim / kLanes < kMost ? kDim / kLanes : kMost;
  for (int d = 0; d < kDim; d += kVecs * kLanes) {
    Vec sum[kQueries][kVecs];
#pragma GCC unroll 4
    for (int n = 0; n < kQueries; ++n) {
#pragma GCC unroll 16
      for (int u = 0; u < kVecs; ++u) sum[n][u] = Load(out[n] + d + u * kLanes);
    }
    for (int64_t j = 0; j < count; ++j) {
      const Element* value = values + j * stride + d;
#pragma GCC unroll 16
      for (int u = 0; u < kVecs; ++u) {
        Vec part = LoadWide(value + u * kLanes);
        if (kQueries > 1) Keep(part);
#pragma GCC unroll 4
        for (int n = 0; n < kQueries; ++n) sum[n][u] = Fma(Set(weights[n][j]), part, sum[n][u]);
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n < kQueries; ++n) {
#pragma GCC unroll 16
      for (int u = 0; u < kVecs; ++u) Store(out[n] + d + u * kLanes, sum[n][u]);
    }
  }
}

// The same of one query, of any width.
template <int kDim, typename Element>
RECOLLECT_INLINE void AddWeighted(const float* weights, const Element* values, int64_t stride,
                                  int64_t count, float* out, int dim) {
  if constexpr (kDim > 0) {
    AddWeightedTo<kDim, 1>(&weights, values, stride, count, &out);
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
