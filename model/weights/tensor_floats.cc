#include "model/weights/tensor_floats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/numeric/bf16.h"
#include "base/numeric/half.h"
#include "kernels/quant/quant_blocks.h"

namespace recollect::model {
namespace {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

// Data may start at any byte, so items are copied out before they are read.
template <typename Item, typename Convert>
void Decode(const std::byte* data, int64_t count, const Convert& convert, float* out) {
  Item item;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(&item, data + i * static_cast<int64_t>(sizeof(Item)), sizeof(Item));
    out[i] = convert(item);
  }
}

// Where the fp16 scales of a block are: one, or two next to each other. Their products with a
// block's integers are far from overflow.
struct Scales {
  int64_t at = 0;
  int count = 1;
};
Scales ScalesOf(kernels::QuantFormat format) {
  using enum kernels::QuantFormat;
  switch (format) {
    case kQ8_0:
    case kQ4_0:
    case kQ5_0:
      return {};
    case kQ4_1:
    case kQ5_1:
    case kQ4_K:
    case kQ5_K:
      return {0, 2};
    case kQ6_K:
      return {offsetof(kernels::BlockQ6_K, scale), 1};
  }
  return {};
}

}  // namespace

absl::Status CheckFiniteBlocks(const TensorInfo& info, const std::string& name) {
  const kernels::QuantFormat format = *kernels::QuantFormatNamed(info.dtype);
  const kernels::QuantTraits traits = kernels::TraitsOf(format);
  const Scales scales = ScalesOf(format);
  float values[2];
  for (int64_t at = 0; at < info.bytes; at += traits.block_bytes) {
    Decode<uint16_t>(info.data + at + scales.at, scales.count, HalfToFloat, values);
    const int64_t first = at / traits.block_bytes * traits.block;
    for (int i = 0; i < scales.count; ++i) {
      if (std::isfinite(values[i])) continue;
      return absl::InvalidArgumentError(absl::StrCat(name, ": a scale of elements from ", first,
                                                     " is ", values[i],
                                                     ", expected a finite number"));
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeFloats(std::string_view dtype, const std::byte* data, int64_t count,
                          float* out) {
  if (dtype == "F32") {
    Decode<float>(
        data, count, [](float value) { return value; }, out);
  } else if (dtype == "BF16") {
    Decode<uint16_t>(
        data, count, [](uint16_t bits) { return Bf16{bits}.ToFloat(); }, out);
  } else if (dtype == "F16") {
    Decode<uint16_t>(data, count, HalfToFloat, out);
  } else if (const auto format = kernels::QuantFormatNamed(dtype)) {
    kernels::Dequantize(*format, data, count / kernels::TraitsOf(*format).block, out);
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype ", std::string(dtype), ", expected F32, BF16, F16 or a block format"));
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(std::span<const float> values, int64_t first, const std::string& name) {
  // All of them first, which the compiler turns into vector code.
  constexpr uint32_t kExponent = 0x7f800000;
  bool finite = true;
  for (const float value : values) {
    finite &= (std::bit_cast<uint32_t>(value) & kExponent) != kExponent;
  }
  if (finite) return absl::OkStatus();
  const auto at = std::ranges::find_if_not(values, [](float v) { return std::isfinite(v); });
  return absl::InvalidArgumentError(absl::StrCat(name, ": element ", first + (at - values.begin()),
                                                 " is ", *at, ", expected a finite number"));
}

}  // namespace recollect::model
