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

// The order of quads [kBegin, kEnd): two that share a line of packed codes are neighbours where one
// scale is of all of them.
template <PanelLayout kLayout>
constexpr int QuadAt(int i) {
  return kLayout.scales == 1 ? i % 2 * (kQuantQuads / 2) + i / 2 : i;
}

#if defined(__AVX512VNNI__)

// Computes Σ c q over quads [kBegin, kEnd) for each row and part. `codes` of the panel have kBits.
// The rows alternate, because each addition waits for the last one to the same sum.
template <PanelLayout kLayout, int kBits, int kBegin, int kEnd, int kRows>
RECOLLECT_INLINE void Dot(const uint8_t* codes, const RowCodes<kRows>& x,
                          Ints sum[kQuantParts][kRows]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kLayout.zero == 0) {
      sum[0][r] = _mm512_setzero_si512();
    } else {
      sum[0][r] = _mm512_slli_epi32(SetInts(x.negative[r]), __builtin_ctz(kLayout.zero));
    }
  }
  ForEach<kBegin, kEnd>([&]<int kAt>() __attribute__((always_inline)) {
    constexpr int kQuad = QuadAt<kLayout>(kAt);
    const Ints quad = UnpackQuad<kBits, kQuad>(codes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sum[0][r] = _mm512_dpbusd_epi32(sum[0][r], quad, SetQuad(x.codes + r * x.k + 4 * kQuad));
    }
  });
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
// widened: each quad adds at most 2 * 127 times the largest code. Quad by quad: more of them, and
// the sums of four rows, do not fit into sixteen registers.
template <PanelLayout kLayout, int kBits, int kBegin, int kEnd, int kRows>
RECOLLECT_INLINE void Dot(const uint8_t* codes, const RowCodes<kRows>& x,
                          Ints sum[kQuantParts][kRows]) {
  constexpr bool kFiveBits = kLayout.bits == 6 && kLayout.minima;
  constexpr int kLargest = kFiveBits ? 31 : kLayout.bits == 8 ? 128 : (1 << kLayout.bits) - 1;
  constexpr int kTogether = 0x7fff / (2 * 127 * kLargest);
  static_assert(kTogether >= 1);
  Ints few[kQuantParts][kRows];
  ForEach<kBegin, kEnd>([&]<int kAt>() __attribute__((always_inline)) {
    constexpr int kQuad = QuadAt<kLayout>(kAt), kPlace = kAt - kBegin;
    constexpr bool kLast = kPlace % kTogether == kTogether - 1 || kAt == kEnd - 1;
    const Ints quads[kQuantParts] = {UnpackQuad<kBits, kQuad>(codes),
                                     UnpackQuad<kBits, kQuad>(codes + 4 * kLanes)};
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Ints of_row = SetQuad(x.codes + r * x.k + 4 * kQuad);
#pragma GCC unroll 2
      for (int p = 0; p < kQuantParts; ++p) {
        const Ints pairs = MultiplyQuad<kLayout>(quads[p], of_row);
        few[p][r] = kPlace % kTogether == 0 ? pairs : _mm256_add_epi16(few[p][r], pairs);
        Keep(few[p][r]);
        if constexpr (kLast) {
          const Ints wide = _mm256_madd_epi16(few[p][r], _mm256_set1_epi16(1));
          sum[p][r] = kPlace < kTogether ? wide : _mm256_add_epi32(sum[p][r], wide);
        }
      }
    }
  });
  if constexpr (kLayout.zero != 0 && kLayout.bits != 8) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Ints more = _mm256_slli_epi32(SetInts(x.negative[r]), __builtin_ctz(kLayout.zero));
#pragma GCC unroll 2
      for (int p = 0; p < kQuantParts; ++p) sum[p][r] = _mm256_add_epi32(sum[p][r], more);
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

// Adds the products of group `g` of a unit to y for kRows rows. `weights`: the group's codes of
// kBits. `x` is the group of the first row; those of the next rows are codes.k / kQuantGroup apart.
template <PanelLayout kLayout, int kBits, int kRows>
RECOLLECT_INLINE void AddGroup(const uint8_t* unit, int g, const uint8_t* weights,
                               const QuantGroup* x, RowCodes<kRows> codes,
                               Vec y[kQuantParts][kRows]) {
  constexpr int kHalf = kLayout.scales == 1 ? kQuantQuads : kQuantQuads / 2;
  const int64_t groups = codes.k / kQuantGroup;
  Ints sum[kQuantParts][kRows];
  for (int r = 0; r < kRows; ++r) {
    codes.negative[r] = kLayout.scales == 1 ? x[r * groups].negative : x[r * groups].lower;
  }
  Dot<kLayout, kBits, 0, kHalf, kRows>(weights, codes, sum);
#pragma GCC unroll 2
  for (int p = 0; p < kQuantParts; ++p) {
    AddScaled<kRows>(sum[p], LoadScales<kLayout>(unit, g, p).scale[0], x, groups, y[p]);
  }
  if constexpr (kLayout.scales == 2) {
    for (int r = 0; r < kRows; ++r) {
      codes.negative[r] = x[r * groups].negative - x[r * groups].lower;
    }
    Dot<kLayout, kBits, kHalf, kQuantQuads, kRows>(weights, codes, sum);
#pragma GCC unroll 2
    for (int p = 0; p < kQuantParts; ++p) {
      AddScaled<kRows>(sum[p], LoadScales<kLayout>(unit, g, p).scale[1], x, groups, y[p]);
    }
  }
  if constexpr (kLayout.minima) {
#pragma GCC unroll 2
    for (int p = 0; p < kQuantParts; ++p) {
      const Vec minimum = LoadScales<kLayout>(unit, g, p).minimum;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) y[p][r] = Fma(Set(x[r * groups].sum), minimum, y[p][r]);
    }
  }
}

// The prefetch distance. Products of a few rows are bound by memory: this makes one row a third
// faster (Sapphire Rapids, 18 MB of weights), and hides the ends of pages, at which the CPU's own
// prefetch stops.
constexpr int kPrefetchBytes = 4096;

// Multiplies kRows rows from `row` on by one panel. `unpacked`: its codes in 8 bits, or null.
template <PanelLayout kLayout, int kRows, bool kUnpacked = false>
RECOLLECT_INLINE void MultiplyRows(const uint8_t* unit, const QuantInput& x, int64_t row, float* y,
                                   int64_t stride, int outputs, const uint8_t* unpacked = nullptr) {
  constexpr int kBits = kUnpacked ? 8 : kLayout.bits;
  const int64_t groups = x.k / kQuantGroup;
  const int8_t* codes = x.codes + row * x.k;
  const QuantGroup* group = x.groups + row * groups;
  Vec sum[kQuantParts][kRows];
  for (auto& part : sum) {
    for (Vec& of_row : part) of_row = Zero();
  }
  for (int64_t first = 0; first < groups; first += kLayout.groups, unit += kLayout.unit_bytes) {
    for (int g = 0; g < kLayout.groups; ++g, ++group, codes += kQuantGroup) {
      Prefetch<kLayout.group_bytes>(unit + g * kLayout.group_bytes + kPrefetchBytes);
      const uint8_t* weights = unit + kLayout.header_bytes + g * kLayout.group_bytes;
      if constexpr (kUnpacked) weights = unpacked + (first + g) * kUnpackedBytes;
      AddGroup<kLayout, kBits, kRows>(unit, g, weights, group, {codes, x.k, {}}, sum);
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
// `scratch`: QuantScratchBytes(x.k).
template <PanelLayout kLayout>
RECOLLECT_INLINE void MultiplyPanel(const uint8_t* panel, const QuantInput& x, int64_t first,
                                    float* y, int64_t stride, int outputs, uint8_t* scratch) {
  int64_t r = first;
#if defined(__AVX512F__)
  (void)scratch;
  for (; r + 8 <= x.rows; r += 8) {
    MultiplyRows<kLayout, 8>(panel, x, r, y + r * stride, stride, outputs);
  }
#else
  // Two times four rows and more pay for unpacking.
  if (kLayout.bits < 8 && r + 8 <= x.rows) {
    UnpackPanel<kLayout>(panel, x.k / kQuantGroup, 0, scratch);
    for (; r + 4 <= x.rows; r += 4) {
      MultiplyRows<kLayout, 4, true>(panel, x, r, y + r * stride, stride, outputs, scratch);
    }
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
