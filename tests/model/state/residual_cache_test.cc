#include "model/state/residual_cache.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace recollect::model {
namespace {

TEST(ResidualCacheTest, WindowAndSumHoldEveryPositionOnce) {
  constexpr int64_t kWidth = 2, kLength = 300;
  for (const int64_t window : {-1, 0, 1, 5, 63, 64, 100, 400}) {
    for (const int64_t step : {1, 7, 64}) {
      SCOPED_TRACE(testing::Message() << "W " << window << " by " << step);
      ResidualCache cache(window, 1, kWidth);
      std::vector<int64_t> entered;  // S, in the order of entering
      while (cache.length() < kLength) {
        const int64_t first = cache.length(), rows = std::min(step, kLength - first);
        std::vector<float> keys, values;
        for (int64_t i = 0; i < rows * kWidth; ++i) {
          keys.push_back(static_cast<float>(first + i / kWidth));
          values.push_back(-keys.back());
        }
        cache.Append(keys.data(), keys.data(), values.data(), rows, kWidth);
        const ResidualCache::Leaving leaving = cache.LeftBy(rows);
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t entering = row - (rows - leaving.count);
          if (entering >= 0) {
            const float key = leaving.raw[entering * kWidth];
            EXPECT_EQ(leaving.values[entering * kWidth], -key);
            entered.push_back(static_cast<int64_t>(key));
          }
          std::vector<int64_t> touched = entered;
          if (window >= 0) {
            const kernels::RangeSet::Range range = cache.Ranges(first + row).ranges[0];
            for (int64_t entry = range.begin; entry < range.end; ++entry) {
              touched.push_back(static_cast<int64_t>(cache.parts()[0].keys[entry * kWidth]));
            }
          }
          std::vector<int64_t> expected(static_cast<size_t>(first + row + 1));
          std::iota(expected.begin(), expected.end(), 0);
          ASSERT_EQ(touched, expected) << "at " << first + row;
        }
      }
    }
  }
}

}  // namespace
}  // namespace recollect::model
