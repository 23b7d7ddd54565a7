#include "base/numeric/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace recollect {
namespace {

using ::testing::ElementsAre;

constexpr std::array<double, 3> kBounds = {0.5, 1, 2};

TEST(HistogramTest, ABoundBelongsToTheBucketBelowIt) {
  Histogram histogram(kBounds);
  HistogramValues plain(kBounds);
  for (const double value : {0.0, 0.5, 0.75, 1.0, 2.0, 2.5, std::numeric_limits<double>::max()}) {
    histogram.Observe(value);
    plain.Add(value);
  }
  const HistogramValues values = histogram.values();
  EXPECT_THAT(values.counts, ElementsAre(2, 2, 1, 2));
  EXPECT_EQ(values.count(), 7);
  EXPECT_EQ(values.sum, std::numeric_limits<double>::max());
  EXPECT_EQ(plain.counts, values.counts);
  EXPECT_EQ(plain.sum, values.sum);
}

TEST(HistogramTest, NothingObservedIsAllZero) {
  const HistogramValues values = Histogram(kBounds).values();
  EXPECT_THAT(values.counts, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(values.count(), 0);
  EXPECT_EQ(values.sum, 0);
}

TEST(HistogramTest, ThreadsLoseNothing) {
  Histogram histogram(kBounds);
  constexpr int kThreads = 4, kEach = 20000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) histogram.Observe(j % 4);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const HistogramValues values = histogram.values();
  constexpr int64_t kQuarter = kThreads * kEach / 4;
  EXPECT_THAT(values.counts, ElementsAre(kQuarter, kQuarter, kQuarter, kQuarter));
  EXPECT_EQ(values.sum, static_cast<double>(kQuarter * (0 + 1 + 2 + 3)));
}

TEST(HistogramTest, SharedBoundsAscendAndFit) {
  for (const std::span<const double> bounds :
       {std::span<const double>(kStepSeconds), std::span<const double>(kRequestSeconds)}) {
    EXPECT_LE(bounds.size(), Histogram::kMaxBounds);
    for (size_t i = 1; i < bounds.size(); ++i) EXPECT_LT(bounds[i - 1], bounds[i]);
  }
}

}  // namespace
}  // namespace recollect
