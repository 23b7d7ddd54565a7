// Sizes and offsets in whole multiples of something: alignments, panels, blocks.
#pragma once

#include <concepts>
#include <type_traits>

namespace recollect {

// Returns the least multiple of `multiple` that is not below `value`.
// REQUIRES: value >= 0, multiple >= 1, value + multiple - 1 is a T.
template <std::integral T>
constexpr T RoundUp(T value, std::type_identity_t<T> multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace recollect
