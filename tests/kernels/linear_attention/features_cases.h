// The calls that linear attention's features are tested on, with their tolerances, and how they run
// on the CPU and on a device.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/linear_attention/linear_attention.h"
#include "kernels/linear_attention/linear_attention_plan.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels::feature_cases {

struct Call {
  static constexpr int kWays = 3;  // of RunOnDevice
  FeatureMap map = FeatureMap::kSoftmax;
  RowSizes sizes = {};
  std::vector<float> x = {}, scale = {};  // scale empty: none

  int64_t features() const { return sizes.rows * sizes.heads * 2 * sizes.width; }
};

inline constexpr FeatureMap kMaps[] = {FeatureMap::kSoftmax, FeatureMap::kRelu};

inline Call CallOf(FeatureMap map, int64_t rows, int64_t heads, int64_t width, bool scaled) {
  Call call = {.map = map, .sizes = {rows, width, heads, heads * width + 3}};
  call.x = Normals(rows * call.sizes.stride, 1, 4);
  if (scaled) call.scale = Normals(width, 2);
  return call;
}

// A run returns the features.
inline std::vector<float> RunOnCpu(OpContext& ctx, const Call& call) {
  const RowSizes& sizes = call.sizes;
  Guarded features(call.features());
  Features(ctx, call.map, call.x.data(), sizes.stride, sizes.rows, static_cast<int>(sizes.heads),
           static_cast<int>(sizes.width), call.scale.empty() ? nullptr : call.scale.data(),
           features.data());
  return features.values();
}

// Arrays at aligned addresses and up to two floats past them.
inline std::vector<float> RunOnDevice(Device& device, const Call& call, int way) {
  device_cases::Arrays arrays(device);
  float* const features = arrays.Place(std::vector<float>(call.features(), std::nanf("")), way);
  EXPECT_EQ(
      device.Run(FeaturesOp{.map = call.map,
                            .sizes = call.sizes,
                            .x = arrays.Place(call.x, way),
                            .scale = call.scale.empty() ? nullptr : arrays.Place(call.scale, way),
                            .features = features}),
      absl::OkStatus());
  return arrays.Read(features, call.features());
}

// y of head `head` counted over all rows.
inline std::vector<double> ChannelsOf(const Call& call, int64_t head) {
  const RowSizes& sizes = call.sizes;
  const int64_t at = head / sizes.heads * sizes.stride + head % sizes.heads * sizes.width;
  std::vector<double> y(call.x.begin() + at, call.x.begin() + at + sizes.width);
  for (int64_t i = 0; i < sizes.width && !call.scale.empty(); ++i) y[i] *= call.scale[i];
  return y;
}

inline void ExpectMatchesReference(const Call& call, const std::vector<float>& features) {
  const RowSizes& sizes = call.sizes;
  const std::vector<float> expected = RunOnCpu(Scalar(), call);
  ASSERT_EQ(features.size(), expected.size());
  for (int64_t head = 0; head < sizes.rows * sizes.heads; ++head) {
    double largest = 0;
    for (const double y : ChannelsOf(call, head)) largest = std::max(largest, std::abs(y));
    for (int64_t i = head * 2 * sizes.width; i < (head + 1) * 2 * sizes.width; ++i) {
      const double magnitude = call.map == FeatureMap::kRelu ? std::abs(expected[i]) : 1 + largest;
      EXPECT_CLOSE(features[i], expected[i], magnitude, testing::kFeatureFactor) << "at " << i;
    }
  }
}

}  // namespace recollect::kernels::feature_cases
