// Numbers for measuring operations on a device, known to the host at any size, and comparisons of
// the answers. Host code without CUDA, so that every machine tests the cases.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/numeric/bf16.h"

namespace recollect::bench {

inline float FloatOf(float number) { return number; }
inline float FloatOf(Bf16 number) { return number.ToFloat(); }

// An endless row of normally distributed numbers that repeats after about 4 million, so that the
// host knows every number of a device array of any size without a copy of it.
template <typename T>
class Pattern {
 public:
  explicit Pattern(uint32_t seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (T& number : numbers_) {
      if constexpr (std::is_same_v<T, Bf16>) {
        number = Bf16::FromFloat(normal(generator));
      } else {
        number = normal(generator);
      }
    }
  }
  T operator[](int64_t i) const { return numbers_[i % kLength]; }
  // The numbers before the first repetition.
  std::span<const T> period() const { return numbers_; }
  std::vector<float> Floats(int64_t begin, int64_t count) const {
    std::vector<float> floats;
    for (int64_t i = begin; i < begin + count; ++i) floats.push_back(FloatOf((*this)[i]));
    return floats;
  }
  // Returns `rows` times `width` numbers; rows begin `stride` numbers apart.
  std::vector<float> Rows(int64_t begin, int64_t rows, int64_t stride, int64_t width) const {
    std::vector<float> floats;
    for (int64_t row = 0; row < rows; ++row) {
      const std::vector<float> one = Floats(begin + row * stride, width);
      floats.insert(floats.end(), one.begin(), one.end());
    }
    return floats;
  }

 private:
  // Odd, so that rows of a usual width differ.
  static constexpr int64_t kLength = (int64_t{1} << 22) - 3;
  std::vector<T> numbers_ = std::vector<T>(kLength);
};

// Returns INTERNAL if a number differs from the reference by more than 1e-5 * `magnitude`.
absl::Status ExpectClose(std::span<const float> actual, std::span<const float> expected,
                         double magnitude, absl::string_view what);

}  // namespace recollect::bench
