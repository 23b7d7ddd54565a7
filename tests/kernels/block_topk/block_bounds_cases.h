// The calls that bounds of blocks are tested on, and how they run on a device.
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_math.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::bounds_cases {

struct Call {
  BlockBoundsSizes sizes;
  std::vector<float> keys = {};  // [blocks, block, width]
};

// The bounds of blocks, [blocks, width] each.
struct Bounds {
  std::vector<float> low, high;
};

inline Call CallOf(int64_t blocks, int64_t block, int64_t width, bool mean) {
  return {{blocks, block, width, mean}, Normals(blocks * block * width, 1)};
}

inline Call BlockOf(const Call& call, int64_t index) {
  const int64_t numbers = call.sizes.block * call.sizes.width;
  const auto first = call.keys.begin() + index * numbers;
  Call alone = {call.sizes, std::vector<float>(first, first + numbers)};
  alone.sizes.blocks = 1;
  return alone;
}

// Returns the bounds. Every block and its bounds are in arrays of their own, which begin `shift`
// floats past aligned addresses. Means go to two arrays or, for odd blocks, to one.
inline Bounds RunOnDevice(Device& device, const Call& call, size_t shift) {
  const BlockBoundsSizes& sizes = call.sizes;
  const std::vector<float> nothing(sizes.width, std::nanf(""));
  device_cases::Arrays arrays(device);
  std::vector<KeyBlock> blocks;
  for (int64_t b = 0; b < sizes.blocks; ++b) {
    const float* const keys = arrays.Place(BlockOf(call, b).keys, shift);
    float* const low = arrays.Place(nothing, shift);
    blocks.push_back({keys, low, sizes.mean && b % 2 == 1 ? low : arrays.Place(nothing, shift)});
  }
  EXPECT_EQ(device.Run(BlockBoundsOp{sizes, arrays.Place(blocks)}), absl::OkStatus());
  Bounds bounds;
  for (const KeyBlock& block : blocks) {
    for (const auto& [from, to] :
         {std::pair{block.low, &bounds.low}, std::pair{block.high, &bounds.high}}) {
      const std::vector<float> read = arrays.Read(from, sizes.width);
      to->insert(to->end(), read.begin(), read.end());
    }
  }
  return bounds;
}

// Computes the bounds as model/state/block_cache.cc does.
inline Bounds Expected(const Call& call) {
  const auto [blocks, block, width, mean] = call.sizes;
  Bounds bounds;
  for (int64_t i = 0; i < blocks * width; ++i) {
    const float* const first = call.keys.data() + i / width * block * width + i % width;
    float low = *first, high = low, sum = low;
    for (int64_t row = 1; row < block; ++row) {
      low = std::min(low, first[row * width]);
      high = std::max(high, first[row * width]);
      sum += first[row * width];
    }
    sum /= static_cast<float>(block);
    bounds.low.push_back(mean ? sum : low);
    bounds.high.push_back(mean ? sum : high);
  }
  return bounds;
}

// Compares bits, except those of NaNs, which are the device's own.
inline void ExpectSame(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
    EXPECT_EQ(cuda::BitsOf(actual[i]), cuda::BitsOf(expected[i]))
        << "at " << i << ": " << actual[i] << " and " << expected[i];
  }
}

inline void ExpectSame(const Bounds& actual, const Bounds& expected) {
  ExpectSame(actual.low, expected.low);
  ExpectSame(actual.high, expected.high);
}

}  // namespace recollect::kernels::bounds_cases
