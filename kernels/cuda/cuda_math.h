// The arithmetic of the CUDA operations: every rounding written out, the same on the device and on
// the host. A kernel built from these functions gives on a GPU the bits that its host run gives
// (kernels/block/thread_block.h), so tests without a GPU see the numbers a GPU would compute. The
// CPU operations have vector code of their own and do not use these functions; only sample.cc does,
// because it has to agree with the device.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/numeric/bf16.h"

// Marks functions that are compiled for host and device. Without nvcc they are plain inline
// functions.
#if defined(__CUDACC__)
#define RECOLLECT_HD __host__ __device__ __forceinline__
#define RECOLLECT_UNROLL _Pragma("unroll")
#define RECOLLECT_UNROLL_BY_4 _Pragma("unroll 4")
#else
#define RECOLLECT_HD inline
#define RECOLLECT_UNROLL
#define RECOLLECT_UNROLL_BY_4
#endif
// The first of two expressions where a device computes, the second where a host does.
#if defined(__CUDA_ARCH__)
#define RECOLLECT_BY_DEVICE(device, host) device
#else
#define RECOLLECT_BY_DEVICE(device, host) host
#endif

namespace recollect::kernels::cuda {

// Add and Mul are never contracted: neither compiler may fuse a product and a sum into one
// rounding.
RECOLLECT_HD float Add(float a, float b) { return RECOLLECT_BY_DEVICE(__fadd_rn(a, b), a + b); }
RECOLLECT_HD float Mul(float a, float b) { return RECOLLECT_BY_DEVICE(__fmul_rn(a, b), a * b); }
// Returns a * b + c with one rounding.
RECOLLECT_HD float Fma(float a, float b, float c) {
  return RECOLLECT_BY_DEVICE(__fmaf_rn(a, b, c), std::fma(a, b, c));
}
RECOLLECT_HD float Div(float a, float b) { return RECOLLECT_BY_DEVICE(__fdiv_rn(a, b), a / b); }
RECOLLECT_HD float Sqrt(float x) { return RECOLLECT_BY_DEVICE(__fsqrt_rn(x), std::sqrt(x)); }

// Max and Min are like std::max and std::min: if b is NaN, the result is a.
RECOLLECT_HD float Max(float a, float b) { return b > a ? b : a; }
RECOLLECT_HD float Min(float a, float b) { return b < a ? b : a; }

RECOLLECT_HD uint32_t BitsOf(float x) {
  return RECOLLECT_BY_DEVICE(__float_as_uint(x), std::bit_cast<uint32_t>(x));
}
RECOLLECT_HD float FromBits(uint32_t bits) {
  return RECOLLECT_BY_DEVICE(__uint_as_float(bits), std::bit_cast<float>(bits));
}
RECOLLECT_HD float Infinity() { return FromBits(0x7f800000u); }

RECOLLECT_HD float FromBf16(uint16_t bits) { return FromBits(static_cast<uint32_t>(bits) << 16); }

// Rounds to nearest, ties to even; NaN stays NaN (base/numeric/bf16.h).
RECOLLECT_HD uint16_t ToBf16(float x) {
  const uint32_t u = BitsOf(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// Returns exp(x) within 2 ulp where the result is normal: 2^n exp(r) with |r| <= ln(2) / 2 and a
// polynomial of degree 6. 0 below -104, infinity above 88.73, NaN for NaN. It is code of its own,
// because the device's expf and the host's round differently. It has no branches, so that a thread
// can compute several at once.
RECOLLECT_HD float Exp(float x) {
  // Beyond these limits the results are the same; NaN passes through.
  x = x < -104.0f ? -104.0f : x;
  x = x > 88.73f ? 88.73f : x;
  // Rounds to an integer n, which is then in the last bits of the sum.
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  const float shifted = Add(Mul(x, 1.44269504f), kShift);
  const float n = Add(shifted, -kShift);
  float r = Fma(n, -0.693359375f, x);  // exact: the constant has 10 bits
  r = Fma(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = Fma(p, r, 1.3981999507e-3f);
  p = Fma(p, r, 8.3334519073e-3f);
  p = Fma(p, r, 4.1665795894e-2f);
  p = Fma(p, r, 1.6666665459e-1f);
  p = Fma(p, r, 5.0000001201e-1f);
  p = Add(Fma(p, Mul(r, r), r), 1.0f);
  // Multiplies by two factors, since 2^n itself may not be a normal number.
  const uint32_t whole = BitsOf(shifted) - BitsOf(kShift);
  const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(whole) >> 1);
  p = Mul(p, FromBits((half + 127u) << 23));
  return Mul(p, FromBits((whole - half + 127u) << 23));
}

// Returns 2^x with a relative error of at most 2^-21; 0 for -infinity. It is one instruction on the
// device; the host's bits differ. For kernels on tensor cores, whose bits are the device's own
// anyway.
RECOLLECT_HD float Exp2(float x) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return std::exp2(x);
#endif
}

RECOLLECT_HD float Log(float x) { return logf(x); }

// Returns ln(exp(a) + exp(b)) for a finite or -infinite a and a finite b.
RECOLLECT_HD float LogAddExp(float a, float b) {
  const float most = Max(a, b), least = Min(a, b);
  return Add(most, log1pf(Exp(Add(least, -most))));
}

RECOLLECT_HD float Sigmoid(float x) { return Div(1.0f, Add(1.0f, Exp(-x))); }

// Returns x Φ(x) as kernels/elementwise/elementwise_simd.cc computes and explains it:
//   max(x, 0) - u Φ(-u), u = min(|x|, 15), Φ(-u) = exp(-u²/2) t p(t), t = 1 / (1 + 0.35 u)
RECOLLECT_HD float Gelu(float x) {
  const float size = x < 0 ? -x : x;
  const float u = size > 15.0f ? 15.0f : size;
  const float t = Div(1.0f, Fma(0.35f, u, 1.0f));
  float p = -2.9163809337e-2f;
  p = Fma(p, t, 1.4406025147e-1f);
  p = Fma(p, t, -2.5590076401e-1f);
  p = Fma(p, t, 1.5939170746e-1f);
  p = Fma(p, t, -2.3263047395e-2f);
  p = Fma(p, t, 1.0557448826e-1f);
  p = Fma(p, t, 1.1981557190e-1f);
  p = Fma(p, t, 1.3986432677e-1f);
  p = Fma(p, t, 1.3962125887e-1f);
  // A factor corrects the rounding error of u²/2.
  const float half = Mul(u, 0.5f);
  const float square = Mul(u, half);
  const float lost = Fma(-u, half, square);
  const float tail = Mul(Mul(Exp(-square), Add(1.0f, lost)), Mul(p, t));
  return Fma(-u, tail, x > 0 ? x : 0.0f);
}

// The order of a dot product. Its numbers are cut into pieces of kDotPiece, lane l of kDotLanes
// takes the pieces l, l + kDotLanes, … through one chain of Fma, and the lanes' sums c are added as
//   ((c0 + c4) + (c2 + c6)) + ((c1 + c5) + (c3 + c7)),
// the result of a butterfly exchange with the lanes 4, 2 and 1 away, in every lane. Dot products in
// this order have the same bits, however the work is spread over threads.
constexpr int kDotLanes = 8;
constexpr int kDotPiece = 8;

RECOLLECT_HD int RoundUpToPiece(int count) {
  return (count + kDotPiece - 1) / kDotPiece * kDotPiece;
}

// Loads piece `piece` of `count` numbers as floats, 0 past the end. `vector`: the numbers start at
// a multiple of 16 bytes.
RECOLLECT_HD void LoadPiece(const uint16_t* numbers, int piece, int count, bool vector,
                            float to[kDotPiece]) {
  const uint16_t* from = numbers + piece * kDotPiece;
  const int left = count - piece * kDotPiece;
#if defined(__CUDA_ARCH__)
  if (vector && left >= kDotPiece) {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(from));
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = FromBits(words[i] << 16);
      to[2 * i + 1] = FromBits(words[i] & 0xffff0000u);
    }
    return;
  }
#else
  (void)vector;
#endif
  RECOLLECT_UNROLL
  for (int i = 0; i < kDotPiece; ++i) to[i] = i < left ? FromBf16(from[i]) : 0.0f;
}

RECOLLECT_HD void LoadPiece(const float* numbers, int piece, int count, bool vector,
                            float to[kDotPiece]) {
  const float* from = numbers + piece * kDotPiece;
  const int left = count - piece * kDotPiece;
#if defined(__CUDA_ARCH__)
  if (vector && left >= kDotPiece) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float4 four = __ldg(reinterpret_cast<const float4*>(from) + i);
      to[4 * i] = four.x;
      to[4 * i + 1] = four.y;
      to[4 * i + 2] = four.z;
      to[4 * i + 3] = four.w;
    }
    return;
  }
#else
  (void)vector;
#endif
  RECOLLECT_UNROLL
  for (int i = 0; i < kDotPiece; ++i) to[i] = i < left ? from[i] : 0.0f;
}

// Loads the first four of `left` numbers, 0 past the end.
RECOLLECT_HD void LoadFour(const float* from, int left, bool vector, float to[4]) {
#if defined(__CUDA_ARCH__)
  if (vector && left >= 4) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(from));
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
    return;
  }
#else
  (void)vector;
#endif
  RECOLLECT_UNROLL
  for (int i = 0; i < 4; ++i) to[i] = i < left ? from[i] : 0.0f;
}

// Pairs of Bf16, the first in the low half.
template <int kCount>
struct Words {
  uint32_t v[kCount];
};

RECOLLECT_HD uint32_t PackPair(uint16_t low, uint16_t high) {
  return static_cast<uint32_t>(high) << 16 | low;
}

// Packs two numbers, rounded as by ToBf16; NaN stays NaN.
RECOLLECT_HD uint32_t PackRounded(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return PackPair(ToBf16(low), ToBf16(high));
#endif
}

// Loads the first eight of `left` Bf16, 0 past the end.
RECOLLECT_HD Words<4> LoadWords(const uint16_t* from, int left) {
  Words<4> words;
  RECOLLECT_UNROLL
  for (int i = 0; i < 4; ++i) {
    words.v[i] = PackPair(2 * i < left ? from[2 * i] : 0, 2 * i + 1 < left ? from[2 * i + 1] : 0);
  }
  return words;
}

// Adds lane `lane`'s share of a·b to `sum`. `a` has zeros up to RoundUpToPiece(count).
template <typename Element>
RECOLLECT_HD float DotLane(const float* a, const Element* b, int count, int lane, bool vector,
                           float sum) {
  for (int piece = lane; piece * kDotPiece < count; piece += kDotLanes) {
    float numbers[kDotPiece];
    LoadPiece(b, piece, count, vector, numbers);
    RECOLLECT_UNROLL
    for (int i = 0; i < kDotPiece; ++i) sum = Fma(a[piece * kDotPiece + i], numbers[i], sum);
  }
  return sum;
}

RECOLLECT_HD bool IsAligned(const void* pointer) {
  return (reinterpret_cast<uintptr_t>(pointer) & 15u) == 0;
}

template <typename Element>
struct alignas(4 * sizeof(Element)) Four {
  Element v[4];
};

template <typename Element>
RECOLLECT_HD bool IsFourAligned(const Element* pointer) {
  return (reinterpret_cast<uintptr_t>(pointer) & (sizeof(Four<Element>) - 1)) == 0;
}

// Reads the first four of `left` numbers (possibly none), 0 past the end, in one access if they are
// aligned. Unlike LoadFour, it may read memory that the kernel also writes.
RECOLLECT_HD void ReadFour(const float* from, int64_t left, float to[4]) {
  if (left >= 4 && IsFourAligned(from)) {
    const auto four = *reinterpret_cast<const Four<float>*>(from);
    RECOLLECT_UNROLL
    for (int i = 0; i < 4; ++i) to[i] = four.v[i];
    return;
  }
  RECOLLECT_UNROLL
  for (int i = 0; i < 4; ++i) to[i] = i < left ? from[i] : 0.0f;
}

RECOLLECT_HD void Put(float x, float* to) { *to = x; }
RECOLLECT_HD void Put(float x, Bf16* to) { to->bits = ToBf16(x); }

// Writes the first `left` of four numbers, rounded if Element is Bf16, in one access if possible.
template <typename Element>
RECOLLECT_HD void WriteFour(Element* to, int64_t left, const float from[4]) {
  Four<Element> four;
  RECOLLECT_UNROLL
  for (int i = 0; i < 4; ++i) Put(from[i], &four.v[i]);
  if (left >= 4 && IsFourAligned(to)) {
    *reinterpret_cast<Four<Element>*>(to) = four;
    return;
  }
  RECOLLECT_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (i < left) to[i] = four.v[i];
  }
}

// A part of a softmax: max = max_j s_j, sum = Σ_j exp(s_j - max). Without entries it is {-inf, 0}.
struct SoftmaxPart {
  float max;
  float sum;
};

RECOLLECT_HD SoftmaxPart EmptyPart() { return {-Infinity(), 0.0f}; }

// The maximum of both parts, and the factors by which each part's sum and weighted values are
// multiplied before they are added.
struct MergeScales {
  float max;
  float first;
  float second;
};

// Joining an empty part with another leaves the other's bits as they are.
RECOLLECT_HD MergeScales ScalesOf(float first_max, float second_max) {
  const float max = Max(first_max, second_max);
  return {max, first_max == max ? 1.0f : Exp(Add(first_max, -max)),
          second_max == max ? 1.0f : Exp(Add(second_max, -max))};
}

RECOLLECT_HD float Join(const MergeScales& scales, float first, float second) {
  return Fma(first, scales.first, Mul(second, scales.second));
}

// Joins a split, with its weighted value, to those before.
RECOLLECT_HD void JoinSplit(SoftmaxPart& part, float& output, float max, float sum, float more) {
  const MergeScales scales = ScalesOf(part.max, max);
  part = {scales.max, Join(scales, part.sum, sum)};
  output = Join(scales, output, more);
}

// Returns 0 if there are no entries.
RECOLLECT_HD float OutputOf(float sum, float output) { return sum == 0 ? 0.0f : Div(output, sum); }

}  // namespace recollect::kernels::cuda
