#include "base/numeric/mxint8.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace recollect {
namespace {

constexpr int kBias = 127;  // of exponents, as a float's
constexpr int kMantissaBits = 23;
constexpr int kFractionBits = 6;  // of codes: 64 stands for the shared power of two
constexpr float kLargestCode = 127;
constexpr int16_t kMagnitude = 0x7fff;  // of the bits of a Bf16
constexpr int kNotFinite = 255;
constexpr uint16_t kMinusZero = 0x8000;

// Loops over numbers refer to them, since GCC vectorizes no loop that copies a struct. It compiles
// the marked functions for wider vectors as well, of which the machine takes what it has.
#if defined(__x86_64__) && !defined(__clang__)
#define RECOLLECT_WIDER_VECTORS \
  [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define RECOLLECT_WIDER_VECTORS
#endif

// The exponent of the largest magnitude, as biased in a float.
int SharedExponent(std::span<const Bf16> block) {
  int16_t largest = 0;
  for (const Bf16& x : block) {
    largest = std::max<int16_t>(largest, static_cast<int16_t>(x.bits & kMagnitude));
  }
  return std::max(kMxInt8LeastExponent, largest >> 7);
}

// 2^power, a normal float.
float PowerOfTwo(int power) {
  return std::bit_cast<float>(static_cast<uint32_t>(power + kBias) << kMantissaBits);
}
float ToCode(int exponent) { return PowerOfTwo(kFractionBits + kBias - exponent); }
float FromCode(int exponent) { return PowerOfTwo(exponent - kBias - kFractionBits); }

// The nearest code, ties to even, without a call of std::nearbyint for each number: a sum with
// 1.5 * 2^23 has no fraction.
float Code(Bf16 x, float to_code) {
  constexpr float kRound = 12582912.0f;
  const float code = (x.ToFloat() * to_code + kRound) - kRound;
  return std::min(std::max(code, -kLargestCode), kLargestCode);
}

// REQUIRES: value is a Bf16.
Bf16 Exactly(float value) { return {static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16)}; }

// The block of `numbers` that begins with number i.
template <typename Number>
std::span<Number> BlockAt(std::span<Number> numbers, size_t i) {
  return numbers.subspan(i, std::min(kMxInt8Block, numbers.size() - i));
}

}  // namespace

RECOLLECT_WIDER_VECTORS bool RoundToMxInt8(std::span<Bf16> numbers) {
  bool finite = true;
  for (size_t i = 0; i < numbers.size(); i += kMxInt8Block) {
    const std::span<Bf16> block = BlockAt(numbers, i);
    const int exponent = SharedExponent(block);
    finite &= exponent != kNotFinite;
    if (exponent == kNotFinite) continue;
    const float to_code = ToCode(exponent), from_code = FromCode(exponent);
    for (Bf16& x : block) x = Exactly(Code(x, to_code) * from_code);
  }
  return finite;
}

bool IsMxInt8(std::span<const Bf16> numbers) {
  bool is = true;
  for (size_t i = 0; i < numbers.size() && is; i += kMxInt8Block) {
    const std::span<const Bf16> block = BlockAt(numbers, i);
    const int exponent = SharedExponent(block);
    if (exponent == kNotFinite) return false;
    const float to_code = ToCode(exponent);
    for (const Bf16& x : block) {
      is &= Code(x, to_code) == x.ToFloat() * to_code && x.bits != kMinusZero;
    }
  }
  return is;
}

RECOLLECT_WIDER_VECTORS void EncodeMxInt8(std::span<const Bf16> numbers, std::span<uint8_t> bytes) {
  RECOLLECT_CHECK(bytes.size() == MxInt8Bytes(numbers.size()));
  uint8_t* exponents = bytes.data();
  uint8_t* code = bytes.data() + bytes.size() - numbers.size();
  for (size_t i = 0; i < numbers.size(); i += kMxInt8Block) {
    const std::span<const Bf16> block = BlockAt(numbers, i);
    const int exponent = SharedExponent(block);
    *exponents++ = static_cast<uint8_t>(exponent);
    const float to_code = ToCode(exponent);
    for (const Bf16& x : block)
      *code++ = static_cast<uint8_t>(static_cast<int8_t>(Code(x, to_code)));
  }
}

bool DecodeMxInt8(std::span<const uint8_t> bytes, std::span<Bf16> numbers) {
  RECOLLECT_CHECK(bytes.size() == MxInt8Bytes(numbers.size()));
  const std::span<const uint8_t> codes = bytes.subspan(bytes.size() - numbers.size());
  bool sound = true;
  for (size_t i = 0; i < numbers.size(); i += kMxInt8Block) {
    const std::span<Bf16> block = BlockAt(numbers, i);
    const int exponent = bytes[i / kMxInt8Block];
    // 255 is a float's infinity; what it makes has another exponent than a number that fits.
    const float from_code = FromCode(std::clamp(exponent, kMxInt8LeastExponent, kNotFinite - 1));
    uint8_t none = 0;  // whether any code is the one that is none
    for (size_t j = 0; j < block.size(); ++j) {
      none |= static_cast<uint8_t>(codes[i + j] == 0x80);
      block[j].bits = Exactly(static_cast<int8_t>(codes[i + j]) * from_code).bits;
    }
    sound &= none == 0;
    // The exponent is that of the largest number: a block has one encoding.
    sound &= exponent == SharedExponent(block);
  }
  return sound;
}

}  // namespace recollect
