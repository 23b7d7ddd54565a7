#include <gmock/gmock.h>

#include <limits>

#include "kernels/block_topk/block_bounds_plan.h"
#include "tests/kernels/block_topk/block_bounds_cases.h"
#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/test_device.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

class BlockBoundsDeviceTest : public OnTestDevice {
 protected:
  bounds_cases::Bounds Run(const bounds_cases::Call& call, size_t shift) const {
    return bounds_cases::RunOnDevice(device(), call, shift);
  }
};

TEST_F(BlockBoundsDeviceTest, HasTheBitsOfThePlainLoop) {
  for (const bool mean : {false, true}) {
    for (int64_t width : {0, 1, 3, 34, 127, 128, 300}) {
      for (int64_t block : {1, 2, 7, 64}) {
        for (int64_t blocks : {0, 1, 5}) {
          SCOPED_TRACE(absl::StrCat(blocks, " blocks of ", block, " x ", width,
                                    mean ? ", means" : ", smallest and largest"));
          const bounds_cases::Call call = bounds_cases::CallOf(blocks, block, width, mean);
          for (size_t shift : {0, 1, 2})
            bounds_cases::ExpectSame(Run(call, shift), bounds_cases::Expected(call));
        }
      }
    }
  }
}

TEST_F(BlockBoundsDeviceTest, ABlockHasTheSameBitsInAnyBatch) {
  for (const bool mean : {false, true}) {
    const bounds_cases::Call call = bounds_cases::CallOf(9, 16, 50, mean);
    const bounds_cases::Bounds whole = Run(call, 0);
    for (int64_t b = 0; b < 9; ++b) {
      const bounds_cases::Bounds alone = Run(bounds_cases::BlockOf(call, b), b % 4);
      EXPECT_TRUE(SameBits(alone.low, std::span(whole.low).subspan(b * 50, 50))) << b;
      EXPECT_TRUE(SameBits(alone.high, std::span(whole.high).subspan(b * 50, 50))) << b;
    }
  }
}

// NaN and infinity as first, later and last keys of a channel, and zeros of both signs.
TEST_F(BlockBoundsDeviceTest, NumbersAtTheEdge) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const bool mean : {false, true}) {
    bounds_cases::Call call = bounds_cases::CallOf(3, 5, 7, mean);
    const float strange[] = {std::nanf(""), kInf, -kInf, 0.0f, -0.0f};
    for (size_t i = 0; i < call.keys.size(); i += 3) call.keys[i] = strange[i / 3 % 5];
    bounds_cases::ExpectSame(Run(call, 0), bounds_cases::Expected(call));
    const std::vector<float> zeros = {0.0f, -0.0f, -0.0f, 0.0f};
    call = {{2, 2, 1, mean}, zeros};
    bounds_cases::ExpectSame(Run(call, 0), bounds_cases::Expected(call));
  }
}

TEST_F(BlockBoundsDeviceTest, HasTheBitsOfThePlainLoopOverManyBlocks) {
  const bounds_cases::Call call = bounds_cases::CallOf(200, 64, 256, false);
  bounds_cases::ExpectSame(Run(call, 0), bounds_cases::Expected(call));
}

TEST(BlockBoundsBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  for (const bool mean : {false, true}) {
    const bounds_cases::Call call = bounds_cases::CallOf(3, 6, 150, mean);
    for (HostOrder order : kHostOrders) {
      SCOPED_TRACE(static_cast<int>(order));
      HostDevice host(order);
      bounds_cases::ExpectSame(bounds_cases::RunOnDevice(host, call, 1),
                               bounds_cases::Expected(call));
    }
  }
}

TEST(BlockBoundsPlanTest, RefusesWhatNoLaunchTakes) {
  const auto message = [](const BlockBoundsSizes& sizes) {
    const absl::Status status = CheckBlockBounds(sizes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(CheckBlockBounds({.blocks = 0, .block = 1}), absl::OkStatus());
  EXPECT_EQ(CheckBlockBounds({.blocks = 5, .block = 64, .width = 4096}), absl::OkStatus());
  EXPECT_EQ(message({.blocks = -1, .block = 2, .width = 3}),
            "bounds of -1 blocks of 2 x 3 numbers: a size is too small");
  EXPECT_THAT(message({.blocks = 1, .block = 0, .width = 3}), HasSubstr("blocks of 0 x 3"));
  EXPECT_THAT(message({.blocks = 1, .block = 2, .width = -3}), HasSubstr("blocks of 2 x -3"));
  constexpr int64_t kMany = int64_t{1} << 40;
  EXPECT_THAT(message({.blocks = kMany, .block = 2, .width = 3}), HasSubstr("too many"));
  EXPECT_THAT(message({.blocks = 3, .block = 2, .width = kMany}), HasSubstr("too many"));
  EXPECT_THAT(message({.blocks = kMany, .block = 2, .width = kMany}), HasSubstr("too many"));
}

TEST(BlockBoundsPlanTest, ChecksBlocksAgainstTheSizes) {
  float numbers[1] = {};
  const KeyBlock good{numbers, numbers, numbers};
  const BlockBoundsSizes sizes{.blocks = 2, .block = 1, .width = 1};
  EXPECT_EQ(CheckKeyBlocks(sizes, std::vector{good, good}), absl::OkStatus());
  const auto message = [&](const std::vector<KeyBlock>& blocks) {
    const absl::Status status = CheckKeyBlocks(sizes, blocks);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message({good}), "bounds of 1 blocks, expected 2");
  EXPECT_EQ(message({good, {nullptr, numbers, numbers}}),
            "bounds of block 1: no keys, low or high");
  EXPECT_THAT(message({{numbers, nullptr, numbers}, good}), HasSubstr("block 0: no keys"));
  EXPECT_THAT(message({{numbers, numbers, nullptr}, good}), HasSubstr("block 0: no keys"));
}

}  // namespace
}  // namespace recollect::kernels
