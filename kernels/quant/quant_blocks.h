// Block formats of quantised weights, as GGUF files hold them (published with the ggml library).
// A row of numbers is cut into blocks; the numbers of a block share scales, and each number has
// 4 to 8 bits, q. With s the fp16 `scale` and m the fp16 `minimum` of a block:
//
//   Q8_0  32 numbers, 34 bytes    s * q                     q in -128 .. 127
//   Q4_0  32 numbers, 18 bytes    s * (q - 8)               q in 0 .. 15
//   Q4_1  32 numbers, 20 bytes    s * q + m                 q in 0 .. 15
//   Q5_0  32 numbers, 22 bytes    s * (q - 16)              q in 0 .. 31
//   Q5_1  32 numbers, 24 bytes    s * q + m                 q in 0 .. 31
//   Q4_K  256 numbers, 144 bytes  (s * a) * q - (m * b)     q in 0 .. 15; a, b in 0 .. 63
//   Q5_K  256 numbers, 176 bytes  (s * a) * q - (m * b)     q in 0 .. 31; a, b in 0 .. 63
//   Q6_K  256 numbers, 210 bytes  (s * c) * (q - 32)        q in 0 .. 63; c in -128 .. 127
//
// a and b belong to a sub-block of 32 numbers, c to one of 16. Files of a K format have rows whose
// length is no multiple of 256 in Q5_0, Q5_1 or Q8_0. Each operation is one of fp32,
// rounded, in the order of the parentheses, without fused multiply-add: the numbers are the same
// bits on every machine, and the same as those of the Python package gguf. An integer is exact in
// fp32, so only the products and sums round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

namespace recollect::kernels {

enum class QuantFormat { kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ4_K, kQ5_K, kQ6_K };

inline constexpr QuantFormat kQuantFormats[] = {
    QuantFormat::kQ8_0, QuantFormat::kQ4_0, QuantFormat::kQ4_1, QuantFormat::kQ5_0,
    QuantFormat::kQ5_1, QuantFormat::kQ4_K, QuantFormat::kQ5_K, QuantFormat::kQ6_K};

struct QuantTraits {
  const char* name = "";    // as published: "Q4_K"
  int64_t block = 0;        // numbers in a block
  int64_t block_bytes = 0;  // bytes of a block
};

// By format.
inline constexpr QuantTraits kQuantTraits[] = {
    {"Q8_0", 32, 34}, {"Q4_0", 32, 18},   {"Q4_1", 32, 20},   {"Q5_0", 32, 22},
    {"Q5_1", 32, 24}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210}};

constexpr QuantTraits TraitsOf(QuantFormat format) {
  return kQuantTraits[static_cast<int>(format)];
}

// Finds a format by its published name; nothing if no format is called that.
constexpr std::optional<QuantFormat> QuantFormatNamed(std::string_view name) {
  for (const QuantFormat format : kQuantFormats) {
    if (name == TraitsOf(format).name) return format;
  }
  return std::nullopt;
}

// Blocks as they lie in memory, little-endian and without padding. fp16 fields are bits for
// HalfToFloat (base/numeric/half.h). In a file a block may start at any even address: copy it into
// one of these, or read its bytes.

struct BlockQ8_0 {
  uint16_t scale;
  int8_t quants[32];  // in order
};

// Two numbers share a byte: number i has the lower 4 bits of byte i, number 16 + i the upper ones.
struct BlockQ4_0 {
  uint16_t scale;
  uint8_t quants[16];
};

struct BlockQ4_1 {
  uint16_t scale;
  uint16_t minimum;
  uint8_t quants[16];  // as in Q4_0
};

// Bit 4 of number i is bit i % 8 of byte i / 8 of `fifth_bits`, the others are as in Q4_0.
struct BlockQ5_0 {
  uint16_t scale;
  uint8_t fifth_bits[4];
  uint8_t quants[16];
};

struct BlockQ5_1 {
  uint16_t scale;
  uint16_t minimum;
  uint8_t fifth_bits[4];
  uint8_t quants[16];
};

// The numbers are 8 sub-blocks of 32. Of each 32 bytes of `quants`, number i of one sub-block has
// the lower 4 bits of byte i, and number i of the next sub-block the upper ones.
struct BlockQ4_K {
  uint16_t scale;
  uint16_t minimum;
  uint8_t factors[12];  // for UnpackFactors
  uint8_t quants[128];
};

struct BlockQ5_K {
  uint16_t scale;
  uint16_t minimum;
  uint8_t factors[12];
  uint8_t fifth_bits[32];  // bit j of byte i: bit 4 of number i of sub-block j
  uint8_t quants[128];     // bits 0 to 3, as in Q4_K
};

// Two halves of 128 numbers, each 4 groups of 32. Of a half's 64 bytes of `low_bits`, byte i has in
// its lower 4 bits number i of groups 0 and 1 (i from 0 to 63), in its upper ones that of groups 2
// and 3. Of its 32 bytes of `high_bits`, byte i has number i of group j in bits 2j and 2j + 1.
struct BlockQ6_K {
  uint8_t low_bits[128];  // bits 0 to 3
  uint8_t high_bits[64];  // bits 4 and 5
  int8_t factors[16];     // c of each 16 numbers
  uint16_t scale;
};

using QuantBlocks = std::tuple<BlockQ8_0, BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ4_K,
                               BlockQ5_K, BlockQ6_K>;
template <QuantFormat kFormat>
using QuantBlock = std::tuple_element_t<static_cast<size_t>(kFormat), QuantBlocks>;

// Calls function.operator()<kFormat>() for this format, from vector code as well: every file has a
// copy of its own (kernels/cpu/simd.h).
template <typename Function>
static inline __attribute__((always_inline)) void WithFormat(QuantFormat format,
                                                             const Function& function) {
  switch (format) {
    case QuantFormat::kQ8_0:
      return function.template operator()<QuantFormat::kQ8_0>();
    case QuantFormat::kQ4_0:
      return function.template operator()<QuantFormat::kQ4_0>();
    case QuantFormat::kQ4_1:
      return function.template operator()<QuantFormat::kQ4_1>();
    case QuantFormat::kQ5_0:
      return function.template operator()<QuantFormat::kQ5_0>();
    case QuantFormat::kQ5_1:
      return function.template operator()<QuantFormat::kQ5_1>();
    case QuantFormat::kQ4_K:
      return function.template operator()<QuantFormat::kQ4_K>();
    case QuantFormat::kQ5_K:
      return function.template operator()<QuantFormat::kQ5_K>();
    case QuantFormat::kQ6_K:
      return function.template operator()<QuantFormat::kQ6_K>();
  }
}

// a and b of the 8 sub-blocks of a Q4_K or Q5_K block.
struct QuantFactors {
  uint8_t scale[8];
  uint8_t minimum[8];
};

// Unpacks 8 pairs of 6 bits from 12 bytes. Sub-blocks 0 to 3: a in the lower 6 bits of bytes 0 to
// 3, b in those of bytes 4 to 7. Sub-blocks 4 to 7: the lower 4 bits of a and b in the lower and
// upper half of bytes 8 to 11, their upper 2 bits in the upper 2 of bytes 0 to 3 and 4 to 7.
constexpr QuantFactors UnpackFactors(const uint8_t (&packed)[12]) {
  QuantFactors factors{};
  for (int i = 0; i < 4; ++i) {
    factors.scale[i] = packed[i] & 0x3f;
    factors.minimum[i] = packed[4 + i] & 0x3f;
    factors.scale[4 + i] = static_cast<uint8_t>((packed[8 + i] & 0xf) | (packed[i] >> 6) << 4);
    factors.minimum[4 + i] = static_cast<uint8_t>((packed[8 + i] >> 4) | (packed[4 + i] >> 6) << 4);
  }
  return factors;
}

// Writes the numbers of `count` blocks, in order: blocks[count * block_bytes] at any address,
// out[count * block]. A scale that is no number, or infinite, gives what the formula gives.
void Dequantize(QuantFormat format, const std::byte* blocks, int64_t count, float* out);

}  // namespace recollect::kernels
