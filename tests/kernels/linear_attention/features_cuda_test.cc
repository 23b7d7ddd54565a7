#include "kernels/linear_attention/features_cuda.h"

#include "tests/kernels/cuda/cuda_test_util.h"
#include "tests/kernels/linear_attention/features_device_checks.h"

namespace recollect::kernels {
namespace {

class FeaturesCudaTest : public CudaTest {};

std::vector<float> OnDevice(const feature_cases::Call& call, size_t shift) {
  return feature_cases::RunIn<DeviceArray>(
      call, shift, [&](const float* x, const float* scale, float* features) {
        EXPECT_EQ(Launch(nullptr, FeaturesOp{call.map, call.sizes, x, scale, features}),
                  absl::OkStatus());
      });
}

TEST_F(FeaturesCudaTest, MatchesReference) { feature_cases::CheckMatchesReference(OnDevice); }

TEST_F(FeaturesCudaTest, ARowHasTheSameBitsInAnyBatch) {
  feature_cases::CheckARowHasTheSameBitsInAnyBatch(OnDevice);
}

TEST_F(FeaturesCudaTest, NumbersAtTheEdge) { feature_cases::CheckNumbersAtTheEdge(OnDevice); }

// Many blocks.
TEST_F(FeaturesCudaTest, HasTheBitsOfTheHostRun) {
  for (const FeatureMap map : feature_cases::kMaps) {
    for (int64_t width : {33, 64, 128}) {
      const feature_cases::Call call = feature_cases::CallOf(map, 301, 16, width, true);
      const std::vector<float> expected = feature_cases::RunOnHost(call, 0, HostOrder::kPhases);
      for (size_t shift : {0, 1}) {
        EXPECT_TRUE(SameBits(OnDevice(call, shift), expected))
            << "width " << width << ", shift " << shift;
      }
    }
  }
}

TEST_F(FeaturesCudaTest, RefusesWhatNoLaunchTakes) {
  EXPECT_EQ(Launch(nullptr, FeaturesOp{FeatureMap::kRelu, {1, 129}}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::kernels
