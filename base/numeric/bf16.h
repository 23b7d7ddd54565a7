// bfloat16 as a storage type: the upper 16 bits of an IEEE float, converted with round to nearest
// even. Arithmetic happens in float; vector code converts in bulk (kernels/cpu/convert.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace recollect {

struct Bf16 {
  uint16_t bits = 0;

  static constexpr Bf16 FromFloat(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      return {static_cast<uint16_t>((u >> 16) | 0x40u)};  // NaN stays NaN
    return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
  }
  constexpr float ToFloat() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  friend constexpr bool operator==(Bf16 a, Bf16 b) { return a.bits == b.bits; }
};
static_assert(sizeof(Bf16) == 2);

inline float RoundToBf16(float value) { return Bf16::FromFloat(value).ToFloat(); }

}  // namespace recollect
