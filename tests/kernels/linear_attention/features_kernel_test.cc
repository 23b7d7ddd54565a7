#include "kernels/linear_attention/features_kernel.h"

#include <gmock/gmock.h>

#include "tests/kernels/linear_attention/features_device_checks.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

auto OnHost(HostOrder order) {
  return [order](const feature_cases::Call& call, size_t shift) {
    return feature_cases::RunOnHost(call, shift, order);
  };
}

TEST(FeaturesBlockTest, MatchesReference) {
  feature_cases::CheckMatchesReference(OnHost(HostOrder::kPhases));
}

TEST(FeaturesBlockTest, ARowHasTheSameBitsInAnyBatch) {
  feature_cases::CheckARowHasTheSameBitsInAnyBatch(OnHost(HostOrder::kPhases));
}

TEST(FeaturesBlockTest, NumbersAtTheEdge) {
  feature_cases::CheckNumbersAtTheEdge(OnHost(HostOrder::kPhases));
}

TEST(FeaturesBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  for (const FeatureMap map : feature_cases::kMaps) {
    for (int64_t width : {7, 128}) {
      const feature_cases::Call call = feature_cases::CallOf(map, 5, 3, width, true);
      const std::vector<float> expected = feature_cases::RunOnHost(call, 0, HostOrder::kPhases);
      for (HostOrder order : kHostOrders) {
        EXPECT_TRUE(SameBits(feature_cases::RunOnHost(call, 0, order), expected))
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
