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

// Codes without sign of one part of a group: lane j of quads[i] has numbers 4 i to 4 i + 3 of
// output j. `codes` points at the part in the first line.
template <int kBits>
RECOLLECT_INLINE void UnpackCodes(const uint8_t* codes, Ints quads[kQuantQuads]) {
  if constexpr (kBits == 8) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) quads[i] = LoadInts(codes + i * kQuantLine);
    return;
  }
  const Ints mask = SetBytes(0xf);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Ints line = LoadInts(codes + i * kQuantLine);
    quads[i] = AndInts(line, mask);
    quads[4 + i] = AndInts(RightIn16<4>(line), mask);
  }
  if constexpr (kBits == 6) {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      const Ints line = LoadInts(codes + (4 + h) * kQuantLine);
      Ints* const four = quads + 4 * h;
      four[0] = OrInts(four[0], HighBits<0>(line));
      four[1] = OrInts(four[1], HighBits<1>(line));
      four[2] = OrInts(four[2], HighBits<2>(line));
      four[3] = OrInts(four[3], HighBits<3>(line));
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
