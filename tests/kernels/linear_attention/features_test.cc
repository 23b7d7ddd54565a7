#include <bit>
#include <cmath>
#include <limits>

#include "kernels/linear_attention/linear_attention.h"
#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/linear_attention/features_cases.h"

namespace recollect::kernels {
namespace {

using feature_cases::Call;
using feature_cases::CallOf;
using feature_cases::kMaps;

class FeaturesTest : public OpTest<Call> {};
class FeaturesDeviceTest : public FeaturesTest {};

TEST_P(FeaturesTest, MatchesReference) {
  for (const FeatureMap map : kMaps) {
    // On either side of a lane's piece, and of a warp.
    for (int64_t width : {0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 31, 34, 64, 100, 127, 128}) {
      for (int64_t heads : {1, 3}) {
        for (int64_t rows : {0, 1, 9}) {
          for (const bool scaled : {false, true}) {
            SCOPED_TRACE(absl::StrCat("map ", static_cast<int>(map), ", ", rows, " rows of ", heads,
                                      " x ", width, scaled ? ", scaled" : ""));
            const Call call = CallOf(map, rows, heads, width, scaled);
            feature_cases::ExpectMatchesReference(call, RunInAllWays(call));
          }
        }
      }
    }
  }
}

// Each row alone, and each head of it: at other places of a block, and aligned otherwise.
TEST_P(FeaturesTest, ARowHasTheSameBitsInAnyBatch) {
  for (const FeatureMap map : kMaps) {
    for (int64_t width : {6, 33, 128}) {
      const int64_t rows = 7, heads = 3;
      const Call call = CallOf(map, rows, heads, width, true);
      const std::vector<float> whole = Run(call);
      for (int64_t head = 0; head < rows * heads; ++head) {
        const int64_t row = head / heads, stride = call.sizes.stride;
        Call alone = call;
        alone.sizes = {1, width};
        const auto first = call.x.begin() + row * stride + head % heads * width;
        alone.x.assign(first, first + width);
        EXPECT_TRUE(SameBits(Run(alone), std::span(whole).subspan(head * 2 * width, 2 * width)))
            << head;
        if (head % heads > 0) continue;
        alone.sizes = {1, width, heads, stride};
        alone.x.assign(first, first + stride);
        EXPECT_TRUE(
            SameBits(Run(alone), std::span(whole).subspan(head * 2 * width, heads * 2 * width)))
            << row;
      }
    }
  }
}

// Channels whose exponentials are no floats, and some that are no numbers, in one of two heads:
// they stay in it, and for relu in their channel.
TEST_P(FeaturesTest, NumbersAtTheEdge) {
  Call call = {.sizes = {1, 4}, .x = {500, -500, 0, 0}};
  EXPECT_EQ(Run(call), (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0}));
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const FeatureMap map : kMaps) {
    for (const float strange : {std::nanf(""), kInf, -kInf}) {
      // Vector code's maximum of a NaN and 0 is 0.
      if (on_cpu() && map == FeatureMap::kRelu && std::isnan(strange)) continue;
      call = CallOf(map, 1, 2, 34, false);
      const std::vector<float> plain = Run(call);
      call.x[33] = strange;
      const std::vector<float> features = Run(call);
      feature_cases::ExpectMatchesReference(call, features);
      for (size_t i = 0; i < features.size(); ++i) {
        if (map == FeatureMap::kSoftmax ? i < 68 : i == 33 || i == 67) continue;
        EXPECT_EQ(std::bit_cast<uint32_t>(features[i]), std::bit_cast<uint32_t>(plain[i])) << i;
      }
    }
  }
}

#ifdef RECOLLECT_TEST_ON_CUDA
// Many thread blocks.
TEST_P(FeaturesDeviceTest, HasTheBitsOfTheHost) {
  HostDevice host;
  for (const FeatureMap map : kMaps) {
    for (int64_t width : {33, 64, 128}) {
      const Call call = CallOf(map, 301, 16, width, true);
      EXPECT_TRUE(SameBits(RunInAllWays(call), RunOnDevice(host, call, 0))) << width;
    }
  }
}
#endif

TEST_P(FeaturesDeviceTest, RefusesWhatNoLaunchTakes) {
  EXPECT_EQ(device_->Run(FeaturesOp{FeatureMap::kRelu, {1, 129}}).code(),
            absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Runners, FeaturesTest, ::testing::ValuesIn(Runners()), NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, FeaturesDeviceTest, ::testing::Values(Runner()), NameOfRunner);

}  // namespace
}  // namespace recollect::kernels
