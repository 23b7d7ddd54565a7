// Products of one to eight rows with a panel of quantised weights. The bits of a row do not depend
// on the number of rows.
#pragma once

#include "kernels/gemm/quant_unpack_simd.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {

// Returns four codes of a row, repeated for every output.
RECOLLECT_INLINE Ints SetQuad(const int8_t* codes) {
  int quad;
  __builtin_memcpy(&quad, codes, sizeof(quad));
  return SetInts(quad);
}

// The codes of kRows rows in one group, rows k apart, and for each row -Σ c over the codes that are
// summed.
template <int kRows>
struct RowCodes {
  const int8_t* codes;
  int64_t k;
  int negative[kRows];
};

#if defined(__AVX512VNNI__)

// Computes Σ c q over quads [kBegin, kEnd) for each row. The rows alternate, because each addition
// waits for the last one to the same sum.
template <PanelLayout kLayout, int kBegin, int kEnd, int kRows>
RECOLLECT_INLINE void Dot(const Ints quads[kQuantQuads], const RowCodes<kRows>& x, Ints* sum) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kLayout.zero == 0) {
      sum[r] = _mm512_setzero_si512();
    } else {
      sum[r] = _mm512_slli_epi32(SetInts(x.negative[r]), __builtin_ctz(kLayout.zero));
    }
  }
#pragma GCC unroll 8
  for (int i = kBegin; i < kEnd; ++i) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sum[r] = _mm512_dpbusd_epi32(sum[r], quads[i], SetQuad(x.codes + r * x.k + 4 * i));
    }
  }
}

#else

// Multiplies a quad and adds pairs of products in 16 bits. 8-bit codes are multiplied as |q| times
// c with q's sign, at most 2 * 127 * 128 for a pair.
template <PanelLayout kLayout>
RECOLLECT_INLINE Ints MultiplyQuad(Ints quad, Ints codes) {
  if constexpr (kLayout.bits == 8) {
    const Ints q = SubBytes(quad, SetBytes(kLayout.zero));
    return _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(codes, q));
  } else {
    return _mm256_maddubs_epi16(quad, codes);
  }
}

// Computes the same without VNNI. The sums of kTogether quads fit into 16 bits before they must be
// widened: each quad adds at most 2 * 127 times the largest code.
template <PanelLayout kLayout, int kBegin, int kEnd, int kRows>
RECOLLECT_INLINE void Dot(const Ints quads[kQuantQuads], const RowCodes<kRows>& x, Ints* sum) {
  constexpr bool kFiveBits = kLayout.bits == 6 && kLayout.minima;
  constexpr int kLargest = kFiveBits ? 31 : kLayout.bits == 8 ? 128 : (1 << kLayout.bits) - 1;
  constexpr int kTogether = 0x7fff / (2 * 127 * kLargest);
  static_assert(kTogether >= 1);
  const Ints ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    sum[r] = _mm256_setzero_si256();
    if constexpr (kLayout.zero != 0 && kLayout.bits != 8) {
      sum[r] = _mm256_slli_epi32(SetInts(x.negative[r]), __builtin_ctz(kLayout.zero));
    }
    Ints few = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = kBegin; i < kEnd; ++i) {
      const Ints pairs = MultiplyQuad<kLayout>(quads[i], SetQuad(x.codes + r * x.k + 4 * i));
      few = (i - kBegin) % kTogether == 0 ? pairs : _mm256_add_epi16(few, pairs);
      if ((i - kBegin) % kTogether == kTogether - 1 || i == kEnd - 1) {
        sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(few, ones));
      }
    }
  }
}

#endif

// Adds Σ c q to y, times the scales of the row's group and of each output's weights.
template <int kRows>
RECOLLECT_INLINE void AddScaled(const Ints sum[kRows], Vec scale, const QuantGroup* x,
                                int64_t groups, Vec y[kRows]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    y[r] = Fma(ToFloats(sum[r]), Mul(Set(x[r * groups].scale), scale), y[r]);
  }
}

// Adds the products of a group to y for kRows rows. `x` is the group of the first row; those of the
// next rows are codes.k / kQuantGroup apart.
template <PanelLayout kLayout, int kRows>
RECOLLECT_INLINE void AddGroup(const Ints quads[kQuantQuads], const GroupScales& scales,
                               const QuantGroup* x, RowCodes<kRows> codes, Vec y[kRows]) {
  constexpr int kHalf = kLayout.scales == 1 ? kQuantQuads : kQuantQuads / 2;
  const int64_t groups = codes.k / kQuantGroup;
  Ints sum[kRows];
  for (int r = 0; r < kRows; ++r) {
    codes.negative[r] = kLayout.scales == 1 ? x[r * groups].negative : x[r * groups].lower;
  }
  Dot<kLayout, 0, kHalf, kRows>(quads, codes, sum);
  AddScaled<kRows>(sum, scales.scale[0], x, groups, y);
  if constexpr (kLayout.scales == 2) {
    for (int r = 0; r < kRows; ++r) {
      codes.negative[r] = x[r * groups].negative - x[r * groups].lower;
    }
    Dot<kLayout, kHalf, kQuantQuads, kRows>(quads, codes, sum);
    AddScaled<kRows>(sum, scales.scale[1], x, groups, y);
  }
  if constexpr (kLayout.minima) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) y[r] = Fma(Set(x[r * groups].sum), scales.minimum, y[r]);
  }
}

// The prefetch distance. Products of a few rows are bound by memory: this makes one row a third
// faster (Sapphire Rapids, 18 MB of weights), and hides the ends of pages, at which the CPU's own
// prefetch stops.
constexpr int kPrefetchBytes = 4096;

// Multiplies kRows rows from `row` on by one panel.
template <PanelLayout kLayout, int kRows>
RECOLLECT_INLINE void MultiplyRows(const uint8_t* unit, const QuantInput& x, int64_t row, float* y,
                                   int64_t stride, int outputs) {
  const int64_t groups = x.k / kQuantGroup;
  const int8_t* codes = x.codes + row * x.k;
  const QuantGroup* group = x.groups + row * groups;
  Vec sum[kQuantParts][kRows];
  for (auto& part : sum) {
    for (Vec& of_row : part) of_row = Zero();
  }
  for (int64_t first = 0; first < groups; first += kLayout.groups, unit += kLayout.unit_bytes) {
    for (int g = 0; g < kLayout.groups; ++g, ++group, codes += kQuantGroup) {
      { Prefetch<kLayout.group_bytes>(unit + g * kLayout.group_bytes + kPrefetchBytes); }
#pragma GCC unroll 2
      for (int part = 0; part < kQuantParts; ++part) {
        Ints quads[kQuantQuads];
        UnpackCodes<kLayout.bits>(
            unit + kLayout.header_bytes + g * kLayout.group_bytes + 4 * kLanes * part, quads);
        const GroupScales scales = LoadScales<kLayout>(unit, g, part);
        AddGroup<kLayout, kRows>(quads, scales, group, {codes, x.k, {}}, sum[part]);
      }
    }
  }
#pragma GCC unroll 2
  for (int part = 0; part < kQuantParts; ++part) {
    const int left = outputs - part * kLanes;
    for (int r = 0; r < kRows; ++r) {
      float* to = y + r * stride + part * kLanes;
      if (left >= kLanes) {
        Store(to, sum[part][r]);
      } else if (left > 0) {
        StoreFirst(to, sum[part][r], left);
      }
    }
  }
}

// Multiplies the rows from `first` on by one panel; y points at its first output in row 0.
template <PanelLayout kLayout>
RECOLLECT_INLINE void MultiplyPanel(const uint8_t* panel, const QuantInput& x, int64_t first,
                                    float* y, int64_t stride, int outputs) {
  int64_t r = first;
#if defined(__AVX512F__)
  for (; r + 8 <= x.rows; r += 8) {
    MultiplyRows<kLayout, 8>(panel, x, r, y + r * stride, stride, outputs);
  }
#endif
  for (; r + 4 <= x.rows; r += 4) {
    MultiplyRows<kLayout, 4>(panel, x, r, y + r * stride, stride, outputs);
  }
  for (; r + 2 <= x.rows; r += 2) {
    MultiplyRows<kLayout, 2>(panel, x, r, y + r * stride, stride, outputs);
  }
  if (r < x.rows) MultiplyRows<kLayout, 1>(panel, x, r, y + r * stride, stride, outputs);
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
