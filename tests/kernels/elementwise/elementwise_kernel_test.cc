#include "kernels/elementwise/elementwise_kernel.h"

#include <gmock/gmock.h>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/elementwise/elementwise_cases.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

// A missing barrier, and threads of a phase that depend on each other, would show.
TEST(ElementwiseBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  HostDevice phases;
  for (elementwise_cases::Op op : elementwise_cases::kOps) {
    for (int64_t width : {65, 1030}) {
      const auto call = elementwise_cases::CallOf(op, width > 1000 ? 2 : 11, width);
      const auto expected = elementwise_cases::RunOnDevice(phases, call, 0);
      for (HostOrder order : kHostOrders) {
        HostDevice host(order);
        for (int way : {0, 3}) {
          EXPECT_TRUE(SameBits(elementwise_cases::RunOnDevice(host, call, way), expected))
              << "op " << static_cast<int>(op) << ", order " << static_cast<int>(order);
        }
      }
    }
  }
}

TEST(RowSizesTest, RefusesWhatNoLaunchTakes) {
  const auto message = [](const RowSizes& sizes, int multiple = 1) {
    const absl::Status status = CheckRows("op", sizes, multiple);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(CheckRows("op", {}), absl::OkStatus());
  EXPECT_EQ(CheckRows("op", {.rows = 5, .width = 7}), absl::OkStatus());
  EXPECT_EQ(CheckRows("op", {.rows = 5, .width = 6, .heads = 3, .stride = 20}, 2),
            absl::OkStatus());
  EXPECT_EQ(message({.rows = -1, .width = 7, .stride = 9}),
            "op of -1 rows of 1 x 7 numbers, 9 apart: a size is too small");
  EXPECT_THAT(message({.rows = 1, .width = -7}), HasSubstr("1 x -7 numbers"));
  EXPECT_THAT(message({.rows = 1, .width = 7, .heads = 0}), HasSubstr("0 x 7 numbers"));
  EXPECT_THAT(message({.rows = 1, .width = 7}, 2), HasSubstr("a width that the operation"));
  EXPECT_THAT(message({.rows = 2, .width = 7, .heads = 2, .stride = 13}),
              HasSubstr("2 x 7 numbers, 13 apart: rows overlap"));
  constexpr int64_t kMany = int64_t{1} << 31;
  EXPECT_THAT(message({.rows = kMany}), HasSubstr("2147483648 rows of 1 x 0 numbers"));
  EXPECT_THAT(message({.rows = 5, .width = kMany}), HasSubstr("too many"));
  EXPECT_THAT(message({.rows = 1, .width = kMany * kMany, .heads = kMany, .stride = kMany}),
              HasSubstr("too many"));
}

}  // namespace
}  // namespace recollect::kernels
