// How far a fast op may be from its double-precision reference:
//
//   |actual - expected| <= factor * kFloatEpsilon * magnitude
//
// where the magnitude is computed in double beside the expected value, and says how large the
// numbers were that the op added up. docs/numerics.md explains each factor; raising one needs a
// reason in the same change.
#pragma once

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace recollect::testing {

inline constexpr double kFloatEpsilon = 0x1p-24;

// Magnitude: Σ |x_i w_i|.
inline constexpr double kGemmFactor = 16;
// Magnitude: |y|.
inline constexpr double kRmsNormFactor = 8;
// Magnitude: |y| (1 + |gate|) for the two gates, whose exp turns an error of its argument into a
// relative one.
inline constexpr double kGateFactor = 8;
// Magnitude: |y|.
inline constexpr double kGeluFactor = 16;
// Magnitude: |a| + |b| of the rotated pair.
inline constexpr double kRopeFactor = 4;
// Magnitude: the largest |x| and |state| of the channel so far, times (1 + |z + bias|).
inline constexpr double kGatedScanFactor = 16;
// Magnitude: max |v|, times 1 + the largest Σ |q_d k_d| / sqrt(head_dim).
inline constexpr double kAttentionFactor = 16;
// Magnitude: as attention, summed over chunks with |weight|.
inline constexpr double kGcaFactor = 16;
// Part of that magnitude beside 1, where probabilities are rounded to bf16 before they multiply
// values, each by 2^-8 of itself at most.
inline constexpr double kBf16Probabilities = 0x1p-8 / (kGcaFactor * kFloatEpsilon);
// Magnitude: 1 for softmax, times 1 + the largest |x scale| of the head; |y| for relu.
inline constexpr double kFeatureFactor = 16;
// Magnitude: Σ over features of |φ(q)| times the sum of |φ(k) v|, |S| at the start and |S_0|.
inline constexpr double kLinearAttentionFactor = 16;
// Magnitude: Σ max(|q_i low_i|, |q_i high_i|).
inline constexpr double kBlockScoreFactor = 16;
// Magnitude: Σ |u_i κ_i| / sqrt(d_r).
inline constexpr double kLandmarkFactor = 8;

// Empty when close enough; otherwise what is wrong. NaN and infinities must match.
inline std::string Difference(double actual, double expected, double magnitude, double factor) {
  if (std::isnan(expected) || std::isnan(actual)) {
    if (std::isnan(expected) && std::isnan(actual)) return "";
  } else if (std::isinf(expected) || std::isinf(actual)) {
    if (expected == actual) return "";
  } else if (std::abs(actual - expected) <= factor * kFloatEpsilon * magnitude) {
    return "";
  }
  return absl::StrCat("actual ", actual, ", expected ", expected, ": off by ",
                      std::abs(actual - expected) / (kFloatEpsilon * magnitude),
                      " epsilons of magnitude ", magnitude, ", allowed ", factor);
}

}  // namespace recollect::testing
