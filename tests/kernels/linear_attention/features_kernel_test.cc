#include "kernels/linear_attention/features_kernel.h"

#include <gmock/gmock.h>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/linear_attention/features_cases.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

TEST(FeaturesBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  HostDevice phases;
  for (const FeatureMap map : feature_cases::kMaps) {
    for (int64_t width : {7, 128}) {
      const feature_cases::Call call = feature_cases::CallOf(map, 5, 3, width, true);
      const std::vector<float> expected = feature_cases::RunOnDevice(phases, call, 0);
      for (HostOrder order : kHostOrders) {
        HostDevice host(order);
        EXPECT_TRUE(SameBits(feature_cases::RunOnDevice(host, call, 0), expected))
            << static_cast<int>(order);
      }
    }
  }
}

TEST(FeaturesBlockTest, RefusesWhatNoLaunchTakes) {
  const auto message = [](const RowSizes& sizes) {
    const absl::Status status = CheckFeatures(sizes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(CheckFeatures({}), absl::OkStatus());
  EXPECT_EQ(CheckFeatures({.rows = 5, .width = 128, .heads = 3}), absl::OkStatus());
  EXPECT_EQ(message({.rows = 5, .width = 129}), "features of 129 channels, expected 0 to 128");
  EXPECT_THAT(message({.rows = -1, .width = 8}), HasSubstr("features of -1 rows of 1 x 8"));
  EXPECT_THAT(message({.rows = 2, .width = 8, .heads = 2, .stride = 15}), HasSubstr("overlap"));
}

}  // namespace
}  // namespace recollect::kernels
