// MXINT8, a number format of the OCP Microscaling Formats specification 1.0: a block of 32 numbers
// shares a power of two, and each number has 8 bits. Chunk states are rounded to it by default
// (docs/decisions/0040-chunk-states-in-8-bits.md).
//
// A number is code * 2^(exponent - 127 - 6), with a code of -127 .. 127 and the exponent of the
// block's largest magnitude, 7 .. 254: 2^-120 and less has the exponent 7, so that all of it is
// arithmetic of normal floats. All of these are bfloat16 numbers too: what was rounded once is
// encoded, decoded and rounded again without a further change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/numeric/bf16.h"

namespace recollect {

inline constexpr size_t kMxInt8Block = 32;  // numbers; the last block of a span may have fewer
inline constexpr int kMxInt8LeastExponent = 7;

// Rounds numbers in place to the nearest that MXINT8 has, block by block. A block with a number
// that is not finite is left as it is. Returns whether there is none: IsMxInt8 of the outcome.
bool RoundToMxInt8(std::span<Bf16> numbers);

// Whether rounding would change none of them.
bool IsMxInt8(std::span<const Bf16> numbers);

// An exponent for each block, followed by a code for each number.
constexpr size_t MxInt8Bytes(size_t numbers) {
  return (numbers + kMxInt8Block - 1) / kMxInt8Block + numbers;
}

// REQUIRES: IsMxInt8(numbers), bytes.size() == MxInt8Bytes(numbers.size()).
void EncodeMxInt8(std::span<const Bf16> numbers, std::span<uint8_t> bytes);

// False if no EncodeMxInt8 writes these bytes; `numbers` are then undefined.
// REQUIRES: bytes.size() == MxInt8Bytes(numbers.size()).
bool DecodeMxInt8(std::span<const uint8_t> bytes, std::span<Bf16> numbers);

}  // namespace recollect
