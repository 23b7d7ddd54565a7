// Helpers of the kernel tests: random numbers from fixed seeds, outputs between guard zones, bit
// comparison.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "base/numeric/bf16.h"
#include "kernels/cpu/op_context.h"
#include "tests/support/tolerance.h"

namespace recollect::kernels {

inline std::vector<float> Normals(int64_t count, uint32_t seed, float deviation = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = normal(generator);
  return numbers;
}

inline std::vector<Bf16> NormalBf16(int64_t count, uint32_t seed, float deviation = 1) {
  std::vector<Bf16> numbers;
  for (float number : Normals(count, seed, deviation)) numbers.push_back(Bf16::FromFloat(number));
  return numbers;
}

// `count` floats at an address that is 4 bytes past a 64-byte boundary, between zones that must
// survive. The content starts as NaN: what an op leaves out shows.
class Guarded {
 public:
  explicit Guarded(int64_t count) : Guarded(std::vector<float>(count, std::nanf(""))) {}
  explicit Guarded(std::vector<float> content) : count_(static_cast<int64_t>(content.size())) {
    storage_.resize(content.size() + 2 * kZone + 32, kGuard);
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    begin_ = kZone + static_cast<int64_t>((64 - address % 64) % 64 / sizeof(float)) + 1;
    if (!content.empty()) {
      std::memcpy(storage_.data() + begin_, content.data(), content.size() * sizeof(float));
    }
  }
  ~Guarded() {
    for (int64_t i = 0; i < static_cast<int64_t>(storage_.size()); ++i) {
      if (i >= begin_ && i < begin_ + count_) continue;
      EXPECT_EQ(storage_[i], kGuard) << "written outside, at " << i - begin_ << " of " << count_;
    }
  }
  float* data() { return storage_.data() + begin_; }
  float operator[](int64_t i) const { return storage_[begin_ + i]; }
  std::vector<float> values() const {
    return {storage_.begin() + begin_, storage_.begin() + begin_ + count_};
  }

 private:
  static constexpr int64_t kZone = 64;
  static constexpr float kGuard = 12345.678f;
  int64_t count_;
  int64_t begin_ = 0;
  std::vector<float> storage_;
};

inline ::testing::AssertionResult SameBits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " numbers";
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return ::testing::AssertionFailure() << "at " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// The instruction sets that this machine can run, the scalar reference first.
inline std::vector<Isa> RunnableIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= DetectIsa()) isas.push_back(isa);
  }
  return isas;
}

// A context whose ops are the scalar references: the oracle of the others.
inline OpContext& Scalar() {
  static OpContext scalar(Isa::kScalar);
  return scalar;
}

#define EXPECT_CLOSE(actual, expected, magnitude, factor) \
  EXPECT_EQ(::recollect::testing::Difference(actual, expected, magnitude, factor), "")

}  // namespace recollect::kernels
