// A thin wrapper of a vector of floats, in which the *_simd.cc files are written. Each of those
// files is compiled once per instruction set into the namespace RECOLLECT_SIMD_NS, with that set's
// compiler flags. Everything here has internal linkage, and those files use no inline function or
// template of other headers: the linker keeps one copy of an inline function, and it could be one
// compiled for AVX-512, called on a machine without it.
//
// Load and Store have no alignment needs. Fma is the only fused operation; the compiler adds none
// (-ffp-contract=off).
#pragma once

#include <immintrin.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define RECOLLECT_SIMD_NS avx512
#elif defined(__AVX2__)
#define RECOLLECT_SIMD_NS avx2
#else
#error "compile with -mavx2 -mfma or the AVX-512 flags"
#endif
#define RECOLLECT_INLINE static inline __attribute__((always_inline))

namespace recollect::kernels::RECOLLECT_SIMD_NS {

#if defined(__AVX512F__)
using Vec = __m512;
using Ints = __m512i;
constexpr int kLanes = 16;
// The intrinsics of the vectors' width.
#define RECOLLECT_MM(name) _mm512_##name
#define RECOLLECT_MM_ALL(name) _mm512_##name##_si512
#else
using Vec = __m256;
using Ints = __m256i;
constexpr int kLanes = 8;
#define RECOLLECT_MM(name) _mm256_##name
#define RECOLLECT_MM_ALL(name) _mm256_##name##_si256
#endif

// Has the compiler compute `v` here and keep it in a register. By itself it reads a vector again
// for each use, or adds the terms of a sum of integers at its end and until then keeps them on the
// stack.
RECOLLECT_INLINE void Keep(Vec& v) { __asm__("" : "+v"(v)); }
RECOLLECT_INLINE void Keep(Ints& v) { __asm__("" : "+v"(v)); }
// Hides where `p` points, so that what was read there before is read again rather than kept.
RECOLLECT_INLINE void KeepApart(const float*& p) { __asm__("" : "+r"(p)); }

RECOLLECT_INLINE Vec Zero() { return RECOLLECT_MM(setzero_ps)(); }
RECOLLECT_INLINE Vec Set(float v) { return RECOLLECT_MM(set1_ps)(v); }
RECOLLECT_INLINE Vec Load(const float* p) { return RECOLLECT_MM(loadu_ps)(p); }
RECOLLECT_INLINE void Store(float* p, Vec v) { RECOLLECT_MM(storeu_ps)(p, v); }
RECOLLECT_INLINE Vec Add(Vec a, Vec b) { return RECOLLECT_MM(add_ps)(a, b); }
RECOLLECT_INLINE Vec Sub(Vec a, Vec b) { return RECOLLECT_MM(sub_ps)(a, b); }
RECOLLECT_INLINE Vec Mul(Vec a, Vec b) { return RECOLLECT_MM(mul_ps)(a, b); }
RECOLLECT_INLINE Vec Div(Vec a, Vec b) { return RECOLLECT_MM(div_ps)(a, b); }
RECOLLECT_INLINE Vec Fma(Vec a, Vec b, Vec c) { return RECOLLECT_MM(fmadd_ps)(a, b, c); }
// c - a b
RECOLLECT_INLINE Vec Fnma(Vec a, Vec b, Vec c) { return RECOLLECT_MM(fnmadd_ps)(a, b, c); }
RECOLLECT_INLINE Vec Max(Vec a, Vec b) { return RECOLLECT_MM(max_ps)(a, b); }
RECOLLECT_INLINE Vec Min(Vec a, Vec b) { return RECOLLECT_MM(min_ps)(a, b); }
// Swaps lanes 2j and 2j + 1.
RECOLLECT_INLINE Vec SwapPairs(Vec v) { return RECOLLECT_MM(permute_ps)(v, 0xb1); }

RECOLLECT_INLINE Ints ZeroInts() { return RECOLLECT_MM_ALL(setzero)(); }
RECOLLECT_INLINE Ints SetInts(int v) { return RECOLLECT_MM(set1_epi32)(v); }
RECOLLECT_INLINE Ints LoadInts(const void* p) {
  return RECOLLECT_MM_ALL(loadu)(static_cast<const Ints*>(p));
}
RECOLLECT_INLINE void StoreInts(void* p, Ints a) {
  RECOLLECT_MM_ALL(storeu)(static_cast<Ints*>(p), a);
}
RECOLLECT_INLINE Ints AndInts(Ints a, Ints b) { return RECOLLECT_MM_ALL(and)(a, b); }
RECOLLECT_INLINE Ints OrInts(Ints a, Ints b) { return RECOLLECT_MM_ALL(or)(a, b); }
RECOLLECT_INLINE Vec ToFloats(Ints a) { return RECOLLECT_MM(cvtepi32_ps)(a); }

#if defined(__AVX512F__)

RECOLLECT_INLINE __mmask16 FirstMask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
// The first n lanes, 0 <= n < kLanes; the rest are zero and their memory is not touched.
RECOLLECT_INLINE Vec LoadFirst(const float* p, int n) {
  return _mm512_maskz_loadu_ps(FirstMask(n), p);
}
RECOLLECT_INLINE void StoreFirst(float* p, Vec v, int n) {
  _mm512_mask_storeu_ps(p, FirstMask(n), v);
}
RECOLLECT_INLINE Vec SelectFirst(int n, Vec v, Vec otherwise) {
  return _mm512_mask_blend_ps(FirstMask(n), otherwise, v);
}
RECOLLECT_INLINE Vec Round(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// v 2^n for whole n in [-150, 128].
RECOLLECT_INLINE Vec ScaleByPowerOfTwo(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }
RECOLLECT_INLINE Vec LoadBf16(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
RECOLLECT_INLINE Vec LoadBf16First(const uint16_t* p, int n) {
  const __m256i half = _mm256_maskz_loadu_epi16(FirstMask(n), p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
// Bits of bf16 in the upper half of each lane, round to nearest even, NaN stays NaN.
RECOLLECT_INLINE Vec RoundBf16(Vec v) {
  const __m512i u = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i nan = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i bits = _mm512_mask_blend_epi32(is_nan, up, nan);
  return _mm512_castsi512_ps(
      _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
RECOLLECT_INLINE void StoreBf16(uint16_t* p, Vec v) {
  const __m512i u = _mm512_srli_epi32(_mm512_castps_si512(RoundBf16(v)), 16);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(u));
}

// Joins the quarters of the vectors as (L0 L2) (L1 L3): the last step of JoinLanes.
template <typename Join>
RECOLLECT_INLINE Vec JoinQuarters(const Vec fours[4], Join join) {
  const Vec low = join(_mm512_shuffle_f32x4(fours[0], fours[1], 0x44),
                       _mm512_shuffle_f32x4(fours[0], fours[1], 0xee));
  const Vec high = join(_mm512_shuffle_f32x4(fours[2], fours[3], 0x44),
                        _mm512_shuffle_f32x4(fours[2], fours[3], 0xee));
  return join(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
}
RECOLLECT_INLINE __m128 Quarters(Vec v) {
  const __m128 even = _mm_add_ps(_mm512_extractf32x4_ps(v, 0), _mm512_extractf32x4_ps(v, 2));
  const __m128 odd = _mm_add_ps(_mm512_extractf32x4_ps(v, 1), _mm512_extractf32x4_ps(v, 3));
  return _mm_add_ps(even, odd);
}
RECOLLECT_INLINE float MaxOf(Vec v) { return _mm512_reduce_max_ps(v); }

#else  // AVX2

RECOLLECT_INLINE __m256i FirstMask(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
RECOLLECT_INLINE Vec LoadFirst(const float* p, int n) {
  return _mm256_maskload_ps(p, FirstMask(n));
}
RECOLLECT_INLINE void StoreFirst(float* p, Vec v, int n) {
  _mm256_maskstore_ps(p, FirstMask(n), v);
}
RECOLLECT_INLINE Vec SelectFirst(int n, Vec v, Vec otherwise) {
  return _mm256_blendv_ps(otherwise, v, _mm256_castsi256_ps(FirstMask(n)));
}
RECOLLECT_INLINE Vec Round(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// In two steps, since 2^n alone may not be a normal number.
RECOLLECT_INLINE Vec ScaleByPowerOfTwo(Vec v, Vec n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
  return Mul(Mul(v, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}
RECOLLECT_INLINE Vec LoadBf16(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
RECOLLECT_INLINE Vec LoadBf16First(const uint16_t* p, int n) {
  uint16_t padded[kLanes] = {};
  for (int i = 0; i < n; ++i) padded[i] = p[i];
  return LoadBf16(padded);
}
RECOLLECT_INLINE Vec RoundBf16(Vec v) {
  const __m256i u = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i nan = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const Vec is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
  const Vec bits = _mm256_blendv_ps(_mm256_castsi256_ps(up), _mm256_castsi256_ps(nan), is_nan);
  return _mm256_and_ps(bits, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
RECOLLECT_INLINE void StoreBf16(uint16_t* p, Vec v) {
  const __m256i u = _mm256_srli_epi32(_mm256_castps_si256(RoundBf16(v)), 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(u, u), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}

// The same of two halves.
template <typename Join>
RECOLLECT_INLINE Vec JoinQuarters(const Vec fours[2], Join join) {
  return join(_mm256_permute2f128_ps(fours[0], fours[1], 0x20),
              _mm256_permute2f128_ps(fours[0], fours[1], 0x31));
}
RECOLLECT_INLINE __m128 Quarters(Vec v) {
  return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}
RECOLLECT_INLINE float MaxOf(Vec v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

#endif

// Lane i of each quarter of the result has the lanes of w[i] in that quarter, joined as ((l0 l2)
// (l1 l3)).
template <typename Join>
RECOLLECT_INLINE Vec JoinFours(const Vec w[4], Join join) {
  const Vec ab = join(RECOLLECT_MM(unpacklo_ps)(w[0], w[1]), RECOLLECT_MM(unpackhi_ps)(w[0], w[1]));
  const Vec cd = join(RECOLLECT_MM(unpacklo_ps)(w[2], w[3]), RECOLLECT_MM(unpackhi_ps)(w[2], w[3]));
  return join(RECOLLECT_MM(shuffle_ps)(ab, cd, 0x44), RECOLLECT_MM(shuffle_ps)(ab, cd, 0xee));
}
// Lane i of the result has the lanes of v[i], joined in one order.
template <typename Join>
RECOLLECT_INLINE Vec JoinLanes(const Vec v[kLanes], Join join) {
  Vec fours[kLanes / 4];
#pragma GCC unroll 4
  for (int i = 0; i < kLanes / 4; ++i) fours[i] = JoinFours(v + 4 * i, join);
  return JoinQuarters(fours, join);
}
// Lane i of the result is the sum, the highest, of the lanes of v[i].
RECOLLECT_INLINE Vec SumsOf(const Vec v[kLanes]) {
  return JoinLanes(v, [](Vec a, Vec b) { return Add(a, b); });
}
RECOLLECT_INLINE Vec HighestOf(const Vec v[kLanes]) {
  return JoinLanes(v, [](Vec a, Vec b) { return Max(a, b); });
}

// Sum of all lanes, in a fixed order.
RECOLLECT_INLINE float SumOf(Vec v) {
  __m128 q = Quarters(v);
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// e^x for x in [-104, 89], as Exp.
RECOLLECT_INLINE Vec ExpWithin(Vec x) {
  const Vec n = Round(Mul(x, Set(1.44269504088896341f)));
  // ln 2 in two parts: n times the first is exact.
  Vec r = Fnma(n, Set(0.693359375f), x);
  r = Fnma(n, Set(-2.12194440e-4f), r);
  Vec p = Set(1.9875691500e-4f);
  p = Fma(p, r, Set(1.3981999507e-3f));
  p = Fma(p, r, Set(8.3334519073e-3f));
  p = Fma(p, r, Set(4.1665795894e-2f));
  p = Fma(p, r, Set(1.6666665459e-1f));
  p = Fma(p, r, Set(5.0000001201e-1f));
  p = Fma(Mul(r, r), p, Add(r, Set(1.0f)));
  return ScaleByPowerOfTwo(p, n);
}
// e^x, within 2 ulp for results that are normal numbers; 0 below -104, inf above 88.72, NaN for
// NaN.
RECOLLECT_INLINE Vec Exp(Vec x) {
  // Min and Max return their second argument when one is NaN.
  return ExpWithin(Min(Set(89.0f), Max(Set(-104.0f), x)));
}

// 1 / (1 + e^-x).
RECOLLECT_INLINE Vec Sigmoid(Vec x) { return Div(Set(1.0f), Add(Set(1.0f), Exp(Sub(Zero(), x)))); }

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
