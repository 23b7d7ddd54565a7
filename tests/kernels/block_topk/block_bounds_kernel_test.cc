#include "kernels/block_topk/block_bounds_kernel.h"

#include <gmock/gmock.h>

#include "tests/kernels/block_topk/block_bounds_device_checks.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

auto OnHost(HostOrder order) {
  return [order](const bounds_cases::Call& call, size_t shift) {
    return bounds_cases::RunOnHost(call, shift, order);
  };
}

TEST(BlockBoundsBlockTest, HasTheBitsOfThePlainLoop) {
  bounds_cases::CheckHasTheBitsOfThePlainLoop(OnHost(HostOrder::kPhases));
}

TEST(BlockBoundsBlockTest, ABlockHasTheSameBitsInAnyBatch) {
  bounds_cases::CheckABlockHasTheSameBitsInAnyBatch(OnHost(HostOrder::kPhases));
}

TEST(BlockBoundsBlockTest, NumbersAtTheEdge) {
  bounds_cases::CheckNumbersAtTheEdge(OnHost(HostOrder::kPhases));
}

TEST(BlockBoundsBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  for (const bool mean : {false, true}) {
    const bounds_cases::Call call = bounds_cases::CallOf(3, 6, 150, mean);
    for (HostOrder order : kHostOrders) {
      SCOPED_TRACE(static_cast<int>(order));
      bounds_cases::ExpectSame(OnHost(order)(call, 1), bounds_cases::Expected(call));
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
