// Packs a score and its candidate into one number that sorts like the score, and sorts such
// numbers. Functions for host and device, like those of kernels/cuda/cuda_math.h.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_math.h"

namespace recollect::kernels::cuda {

// A scored candidate as one number: the greater, the better. From the top: the score's order (32
// bits, 0 for scores that are not finite), the candidate reversed (30 bits), and 2 bits that
// restore the scores which the order does not tell apart (zeros, and scores that are not finite). 0
// stands for no candidate. Numbers of different candidates differ, so a sort of them has one result
// only.
constexpr int64_t kMaxCandidates = int64_t{1} << 30;

RECOLLECT_HD uint64_t PackCandidate(float score, int64_t candidate) {
  enum : uint32_t {
    kPlain = 0,
    kNegativeZero = 1,
    kNan = 1,
    kPlusInfinity = 2,
    kMinusInfinity = 3
  };
  const uint32_t bits = BitsOf(score);
  uint32_t order = 0, lost = kPlain;
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    lost = kNan;
  } else if ((bits & 0x7fffffffu) == 0x7f800000u) {
    lost = bits >> 31 ? kMinusInfinity : kPlusInfinity;
  } else if (bits == 0x80000000u) {
    order = 0x80000000u;  // ranks with +0
    lost = kNegativeZero;
  } else {
    order = bits >> 31 ? ~bits : bits | 0x80000000u;
  }
  const uint32_t reversed = static_cast<uint32_t>(kMaxCandidates - 1 - candidate);
  return static_cast<uint64_t>(order) << 32 | reversed << 2 | lost;
}

RECOLLECT_HD int64_t CandidateOf(uint64_t packed) {
  return kMaxCandidates - 1 - static_cast<int64_t>(static_cast<uint32_t>(packed) >> 2);
}

RECOLLECT_HD float ScoreOf(uint64_t packed) {
  const auto order = static_cast<uint32_t>(packed >> 32);
  const uint32_t lost = static_cast<uint32_t>(packed) & 3u;
  if (order == 0) {
    return lost == 1 ? FromBits(0x7fc00000u) : lost == 2 ? Infinity() : -Infinity();
  }
  if (lost == 1) return -0.0f;
  return FromBits(order >> 31 ? order & 0x7fffffffu : ~order);
}

// A logit and its index as one number: greater for a greater logit, then for a lower index; 0 for
// NaN and -infinity, which are never chosen.
RECOLLECT_HD uint64_t PackChoice(float logit, int32_t index) {
  if (!(logit > -Infinity())) return 0;
  const uint32_t bits = logit == 0 ? 0u : BitsOf(logit);  // zeros of both signs are equal
  const uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(order) << 32 | ~static_cast<uint32_t>(index);
}

// The index; -1 for 0.
RECOLLECT_HD int32_t ChoiceOf(uint64_t packed) {
  return packed == 0 ? -1 : static_cast<int32_t>(~static_cast<uint32_t>(packed));
}

RECOLLECT_HD float LogitOf(uint64_t packed) {
  const auto order = static_cast<uint32_t>(packed >> 32);
  return FromBits(order >> 31 ? order & 0x7fffffffu : ~order);
}

// Bitonic sort: for size = 2, 4, … n and stride = size / 2, … 1, the pairs (i, i + stride), one for
// each pair index below n / 2; the greater goes first when (i & size) == 0.
RECOLLECT_HD int BitonicFirst(int pair, int stride) { return 2 * pair - (pair & (stride - 1)); }

RECOLLECT_HD void BitonicExchange(uint64_t* numbers, int pair, int size, int stride) {
  const int i = BitonicFirst(pair, stride);
  const uint64_t a = numbers[i], b = numbers[i + stride];
  if ((a < b) == ((i & size) == 0)) {
    numbers[i] = b;
    numbers[i + stride] = a;
  }
}

}  // namespace recollect::kernels::cuda
