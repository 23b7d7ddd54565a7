// Random blocks of quantised weights.
#pragma once

#include <cstddef>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/quant/quant_blocks.h"

namespace recollect::kernels::quant_cases {

// A tensor [rows, k] of one format; its blocks begin at an odd address.
class Tensor {
 public:
  // Codes and factors are any bits. Scales and minima are fp16 numbers from 2^-8 to 2^-3, minima of
  // either sign.
  Tensor(QuantFormat format, int64_t rows, int64_t k, uint32_t seed)
      : format_(format), rows_(rows), k_(k) {
    const QuantTraits traits = TraitsOf(format);
    bytes_.resize(1 + rows * k / traits.block * traits.block_bytes);
    std::mt19937 generator(seed);
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(generator());
    const auto half = [&] { return static_cast<uint16_t>(0x1c00 + generator() % 0x1400); };
    SetScales([&] { return half(); },
              [&] { return static_cast<uint16_t>(half() | (generator() % 2 << 15)); });
  }

  // Gives every block scale() and, where the format has one, minimum(), as bits of fp16.
  template <typename Scale, typename Minimum>
  void SetScales(Scale scale, Minimum minimum) {
    const QuantTraits traits = TraitsOf(format_);
    const bool scale_last = format_ == QuantFormat::kQ6_K;
    const bool has_minimum = format_ == QuantFormat::kQ4_1 || format_ == QuantFormat::kQ5_1 ||
                             format_ == QuantFormat::kQ4_K || format_ == QuantFormat::kQ5_K;
    for (size_t at = 1; at < bytes_.size(); at += traits.block_bytes) {
      const uint16_t of_scale = scale(), of_minimum = minimum();
      std::memcpy(&bytes_[at + (scale_last ? traits.block_bytes - 2 : 0)], &of_scale, 2);
      if (has_minimum) std::memcpy(&bytes_[at + 2], &of_minimum, 2);
    }
  }

  QuantRows view() const { return {format_, bytes_.data() + 1, rows_}; }
  std::vector<float> Numbers() const {
    std::vector<float> numbers(rows_ * k_);
    Dequantize(format_, bytes_.data() + 1, rows_ * k_ / TraitsOf(format_).block, numbers.data());
    return numbers;
  }

 private:
  QuantFormat format_;
  int64_t rows_, k_;
  std::vector<std::byte> bytes_;
};

}  // namespace recollect::kernels::quant_cases
