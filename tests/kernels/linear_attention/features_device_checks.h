// What any device run of linear attention's features must do, checked on the host run of the
// kernels' blocks and on a GPU alike: a runner is called as run(call, shift) and returns the
// features; all arrays begin `shift` floats past aligned addresses.
#ifndef RECOLLECT_TESTS_KERNELS_LINEAR_ATTENTION_FEATURES_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_LINEAR_ATTENTION_FEATURES_DEVICE_CHECKS_H_

#include <algorithm>
#include <limits>

#include "kernels/linear_attention/linear_attention.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels::feature_cases {

struct Call {
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

// Places a call in arrays of a memory, Array<T>(content, shift), and runs it there with
// launch(x, scale, features).
template <template <typename> typename Array, typename Launch>
std::vector<float> RunIn(const Call& call, size_t shift, const Launch& launch) {
  Array<float> x(call.x, shift), scale(call.scale, shift);
  Array<float> features(std::vector<float>(call.features(), std::nanf("")), shift);
  launch(x.data(), call.scale.empty() ? nullptr : scale.data(), features.data());
  return features.Download();
}

// The kernels' thread blocks, on the host.
inline std::vector<float> RunOnHost(const Call& call, size_t shift, HostOrder order) {
  return RunIn<HostArray>(call, shift, [&](const float* x, const float* scale, float* features) {
    EXPECT_EQ(FeaturesOnHost(order, call.map, call.sizes, x, scale, features), absl::OkStatus());
  });
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
  std::vector<float> expected(call.features());
  Features(Scalar(), call.map, call.x.data(), sizes.stride, sizes.rows,
           static_cast<int>(sizes.heads), static_cast<int>(sizes.width),
           call.scale.empty() ? nullptr : call.scale.data(), expected.data());
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

// At every alignment the same bits.
template <typename Runner>
void CheckMatchesReference(const Runner& run) {
  for (const FeatureMap map : kMaps) {
    // On either side of a lane's piece, and of a warp.
    for (int64_t width : {0, 1, 2, 3, 4, 5, 7, 16, 31, 34, 64, 100, 127, 128}) {
      for (int64_t heads : {1, 3}) {
        for (int64_t rows : {0, 1, 9}) {
          for (const bool scaled : {false, true}) {
            SCOPED_TRACE(absl::StrCat("map ", static_cast<int>(map), ", ", rows, " rows of ", heads,
                                      " x ", width, scaled ? ", scaled" : ""));
            const Call call = CallOf(map, rows, heads, width, scaled);
            const std::vector<float> features = run(call, 0);
            ExpectMatchesReference(call, features);
            for (size_t shift : {1, 2}) EXPECT_TRUE(SameBits(run(call, shift), features)) << shift;
          }
        }
      }
    }
  }
}

// Each row alone, and each head of it: at other places of a block, and aligned otherwise.
template <typename Runner>
void CheckARowHasTheSameBitsInAnyBatch(const Runner& run) {
  for (const FeatureMap map : kMaps) {
    for (int64_t width : {6, 33, 128}) {
      const int64_t rows = 7, heads = 3;
      const Call call = CallOf(map, rows, heads, width, true);
      const std::vector<float> whole = run(call, 0);
      for (int64_t head = 0; head < rows * heads; ++head) {
        const int64_t row = head / heads, stride = call.sizes.stride;
        Call alone = call;
        alone.sizes = {1, width};
        const auto first = call.x.begin() + row * stride + head % heads * width;
        alone.x.assign(first, first + width);
        EXPECT_TRUE(
            SameBits(run(alone, head % 4), std::span(whole).subspan(head * 2 * width, 2 * width)))
            << head;
        if (head % heads > 0) continue;
        alone.sizes = {1, width, heads, stride};
        alone.x.assign(first, first + stride);
        EXPECT_TRUE(SameBits(run(alone, row % 4),
                             std::span(whole).subspan(head * 2 * width, heads * 2 * width)))
            << row;
      }
    }
  }
}

// Channels whose exponentials are no floats, and some that are no numbers, in one of two heads:
// they stay in it, and for relu in their channel.
template <typename Runner>
void CheckNumbersAtTheEdge(const Runner& run) {
  Call call = {.sizes = {1, 4}, .x = {500, -500, 0, 0}};
  EXPECT_EQ(run(call, 0), (std::vector<float>{1, 0, 0, 0, 0, 1, 0, 0}));
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const FeatureMap map : kMaps) {
    for (const float strange : {std::nanf(""), kInf, -kInf}) {
      call = CallOf(map, 1, 2, 34, false);
      const std::vector<float> plain = run(call, 0);
      call.x[33] = strange;
      const std::vector<float> features = run(call, 0);
      ExpectMatchesReference(call, features);
      for (size_t i = 0; i < features.size(); ++i) {
        if (map == FeatureMap::kSoftmax ? i < 68 : i == 33 || i == 67) continue;
        EXPECT_EQ(cuda::BitsOf(features[i]), cuda::BitsOf(plain[i])) << i;
      }
    }
  }
}

}  // namespace recollect::kernels::feature_cases

#endif  // RECOLLECT_TESTS_KERNELS_LINEAR_ATTENTION_FEATURES_DEVICE_CHECKS_H_
