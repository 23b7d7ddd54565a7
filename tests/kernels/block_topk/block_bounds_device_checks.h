// Checks for any device run of block bounds, made on the host run of the kernel's blocks and on a
// GPU alike: a runner is called as run(call, shift) and returns the bounds; all arrays begin
// `shift` floats past aligned addresses.
#ifndef RECOLLECT_TESTS_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_DEVICE_CHECKS_H_

#include <algorithm>
#include <limits>
#include <memory>

#include "kernels/cuda/cuda_math.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/host_launches.h"

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

// Places every block and its bounds in arrays of their own, Array<T>(content, shift), and runs the
// kernel there with launch(blocks). Means go to two arrays or, for odd blocks, to one.
template <template <typename> typename Array, typename Launch>
Bounds RunIn(const Call& call, size_t shift, const Launch& launch) {
  const BlockBoundsSizes& sizes = call.sizes;
  const std::vector<float> nothing(sizes.width, std::nanf(""));
  std::vector<std::unique_ptr<Array<float>>> memory;
  const auto place = [&](const std::vector<float>& numbers) {
    return memory.emplace_back(std::make_unique<Array<float>>(numbers, shift)).get();
  };
  std::vector<KeyBlock> blocks;
  std::vector<std::pair<Array<float>*, Array<float>*>> outputs;
  for (int64_t b = 0; b < sizes.blocks; ++b) {
    const float* const keys = place(BlockOf(call, b).keys)->data();
    Array<float>* const low = place(nothing);
    Array<float>* const high = sizes.mean && b % 2 == 1 ? low : place(nothing);
    outputs.emplace_back(low, high);
    blocks.push_back({keys, low->data(), high->data()});
  }
  Array<KeyBlock> on_device(blocks);
  launch(on_device.data());
  Bounds bounds;
  for (const auto& [low, high] : outputs) {
    const std::vector<float> least = low->Download(), most = high->Download();
    bounds.low.insert(bounds.low.end(), least.begin(), least.end());
    bounds.high.insert(bounds.high.end(), most.begin(), most.end());
  }
  return bounds;
}

// Runs the kernel's thread blocks on the host.
inline Bounds RunOnHost(const Call& call, size_t shift, HostOrder order) {
  return RunIn<HostArray>(call, shift, [&](const KeyBlock* blocks) {
    EXPECT_EQ(OnHost(order, BlockBoundsOp{call.sizes, blocks}), absl::OkStatus());
  });
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

template <typename Runner>
void CheckHasTheBitsOfThePlainLoop(const Runner& run) {
  for (const bool mean : {false, true}) {
    for (int64_t width : {0, 1, 3, 34, 127, 128, 300}) {
      for (int64_t block : {1, 2, 7, 64}) {
        for (int64_t blocks : {0, 1, 5}) {
          SCOPED_TRACE(absl::StrCat(blocks, " blocks of ", block, " x ", width,
                                    mean ? ", means" : ", smallest and largest"));
          const Call call = CallOf(blocks, block, width, mean);
          for (size_t shift : {0, 1, 2}) ExpectSame(run(call, shift), Expected(call));
        }
      }
    }
  }
}

template <typename Runner>
void CheckABlockHasTheSameBitsInAnyBatch(const Runner& run) {
  for (const bool mean : {false, true}) {
    const Call call = CallOf(9, 16, 50, mean);
    const Bounds whole = run(call, 0);
    for (int64_t b = 0; b < 9; ++b) {
      const Bounds alone = run(BlockOf(call, b), b % 4);
      EXPECT_TRUE(SameBits(alone.low, std::span(whole.low).subspan(b * 50, 50))) << b;
      EXPECT_TRUE(SameBits(alone.high, std::span(whole.high).subspan(b * 50, 50))) << b;
    }
  }
}

// Checks NaN and infinity as first, later and last keys of a channel, and zeros of both signs.
template <typename Runner>
void CheckNumbersAtTheEdge(const Runner& run) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const bool mean : {false, true}) {
    Call call = CallOf(3, 5, 7, mean);
    const float strange[] = {std::nanf(""), kInf, -kInf, 0.0f, -0.0f};
    for (size_t i = 0; i < call.keys.size(); i += 3) call.keys[i] = strange[i / 3 % 5];
    ExpectSame(run(call, 0), Expected(call));
    const std::vector<float> zeros = {0.0f, -0.0f, -0.0f, 0.0f};
    call = {{2, 2, 1, mean}, zeros};
    ExpectSame(run(call, 0), Expected(call));
  }
}

}  // namespace recollect::kernels::bounds_cases

#endif  // RECOLLECT_TESTS_KERNELS_BLOCK_TOPK_BLOCK_BOUNDS_DEVICE_CHECKS_H_
