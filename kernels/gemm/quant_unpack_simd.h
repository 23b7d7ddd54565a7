// Codes and scales of a group of packed weights in vectors, for the vector code of quantised
// products (kernels/gemm/quant_layout.h has the layout). A vector holds kLanes of the 16 outputs:
// with AVX2 a panel has two parts, with AVX-512 one.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/gemm/quant_layout.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {

constexpr int kQuantParts = kQuantPanel / kLanes;
constexpr int kQuantQuads = kQuantGroup / 4;  // fours of numbers: lines of unpacked codes

RECOLLECT_INLINE Ints SetBytes(int v) { return RECOLLECT_MM(set1_epi8)(static_cast<char>(v)); }
RECOLLECT_INLINE Ints SubBytes(Ints a, Ints b) { return RECOLLECT_MM(sub_epi8)(a, b); }
template <int kBy>
RECOLLECT_INLINE Ints RightIn16(Ints a) {
  return RECOLLECT_MM(srli_epi16)(a, kBy);
}
template <int kBy>
RECOLLECT_INLINE Ints LeftIn16(Ints a) {
  return RECOLLECT_MM(slli_epi16)(a, kBy);
}

#if defined(__AVX512F__)

RECOLLECT_INLINE Vec LoadHalves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
RECOLLECT_INLINE Vec LoadUnsignedBytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}
RECOLLECT_INLINE Vec LoadSignedBytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

#else  // AVX2

RECOLLECT_INLINE Vec LoadHalves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
RECOLLECT_INLINE Vec LoadUnsignedBytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}
RECOLLECT_INLINE Vec LoadSignedBytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

#endif

// Bits 2 f and 2 f + 1 of each byte, moved to bits 4 and 5. Bits that a 16-bit shift brings from
// the byte beside do not survive the mask.
template <int kField>
RECOLLECT_INLINE Ints HighBits(Ints line) {
  const Ints mask = SetBytes(0x30);
  if constexpr (kField == 0) return AndInts(LeftIn16<4>(line), mask);
  if constexpr (kField == 1) return AndInts(LeftIn16<2>(line), mask);
  if constexpr (kField == 2) return AndInts(line, mask);
  if constexpr (kField == 3) return AndInts(RightIn16<2>(line), mask);
}

// Codes without sign of one part of a group: lane j of the result has numbers 4 kQuad to 4 kQuad +
// 3 of output j. `codes` points at the part in the first line.
template <int kBits, int kQuad>
RECOLLECT_INLINE Ints UnpackQuad(const uint8_t* codes) {
  if constexpr (kBits == 8) return LoadInts(codes + kQuad * kQuantLine);
  const Ints line = LoadInts(codes + kQuad % 4 * kQuantLine);
  const Ints low = AndInts(kQuad < 4 ? line : RightIn16<4>(line), SetBytes(0xf));
  if constexpr (kBits == 4) return low;
  return OrInts(low, HighBits<kQuad % 4>(LoadInts(codes + (4 + kQuad / 4) * kQuantLine)));
}

// Calls run.operator()<i>() for i = kBegin, …, kEnd - 1.
template <int kBegin, int kEnd, typename Run>
RECOLLECT_INLINE void ForEach(const Run& run) {
  if constexpr (kBegin < kEnd) {
    run.template operator()<kBegin>();
    ForEach<kBegin + 1, kEnd>(run);
  }
}

constexpr int kUnpackedBytes = kQuantGroup * kQuantPanel;  // of a group

// Writes the codes of a panel minus `zero` in 8 bits: [groups][8 lines of 64 bytes].
template <PanelLayout kLayout>
RECOLLECT_INLINE void UnpackPanel(const uint8_t* unit, int64_t groups, int zero, uint8_t* to) {
  const Ints minus = SetBytes(zero);
  for (int64_t first = 0; first < groups; first += kLayout.groups, unit += kLayout.unit_bytes) {
    for (int g = 0; g < kLayout.groups; ++g, to += kUnpackedBytes) {
      const uint8_t* codes = unit + kLayout.header_bytes + g * kLayout.group_bytes;
#pragma GCC unroll 2
      for (int part = 0; part < kQuantParts; ++part) {
        const int at = 4 * kLanes * part;
        ForEach<0, kQuantQuads>([&]<int kQuad>() __attribute__((always_inline)) {
          const Ints quad = UnpackQuad<kLayout.bits, kQuad>(codes + at);
          StoreInts(to + kQuad * kQuantLine + at, SubBytes(quad, minus));
        });
      }
    }
  }
}

// Fetches kBytes at an address that need not be mapped.
template <int kBytes>
RECOLLECT_INLINE void Prefetch(const uint8_t* p) {
#pragma GCC unroll 16
  for (int i = 0; i < kBytes; i += kQuantLine) _mm_prefetch(p + i, _MM_HINT_T0);
}

// Scales of one part of a group; the second scale is of its upper 16 numbers.
struct GroupScales {
  Vec scale[2];
  Vec minimum;
};

// `part` of group `g` of a unit.
template <PanelLayout kLayout>
RECOLLECT_INLINE GroupScales LoadScales(const uint8_t* unit, int g, int part) {
  const uint8_t* bytes = unit + kLayout.header_bytes + g * kLayout.group_bytes + kLayout.code_bytes;
  GroupScales scales;
  if constexpr (kLayout.groups == 1) {
    scales.scale[0] = LoadHalves(bytes + 2 * kLanes * part);
    if constexpr (kLayout.minima) {
      scales.minimum = LoadHalves(bytes + 2 * kQuantPanel + 2 * kLanes * part);
    }
    return scales;
  }
  const Vec shared = LoadHalves(unit + 2 * kLanes * part);
  bytes += kLanes * part;
  if constexpr (kLayout.minima) {
    scales.scale[0] = Mul(shared, LoadUnsignedBytes(bytes));
    const Vec minimum = LoadHalves(unit + 2 * kQuantPanel + 2 * kLanes * part);
    scales.minimum = Mul(minimum, Sub(Zero(), LoadUnsignedBytes(bytes + kQuantPanel)));
    return scales;
  }
  scales.scale[0] = Mul(shared, LoadSignedBytes(bytes));
  scales.scale[1] = Mul(shared, LoadSignedBytes(bytes + kQuantPanel));
  return scales;
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
