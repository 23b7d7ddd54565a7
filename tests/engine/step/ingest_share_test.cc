#include "engine/step/ingest_share.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace recollect::engine {
namespace {

struct Served {
  double steps = 0, ingest = 0;  // time
  std::vector<double> between;   // of the ingest, after each step
};

// Runs steps of these times, and whatever part of the ingest is due after each, in items of `item`.
Served Serve(const std::vector<double>& steps, double item, double beside = 0,
             double longest_turn = 1e9) {
  IngestShare share(longest_turn);
  Served served;
  for (const double step : steps) {
    share.AddStep(step, beside * step);
    served.steps += step;
    double between = 0;
    for (; share.ingest_is_due(); between += item) share.AddIngest(item);
    served.ingest += between;
    served.between.push_back(between);
  }
  return served;
}

TEST(IngestShareTest, AnIngestHasAsMuchTimeAsTheStepsBesideIt) {
  for (const double item : {0.1, 1.0, 2.5}) {
    const Served served = Serve(std::vector<double>(1000, 1.0), item);
    EXPECT_NEAR(served.ingest / served.steps, 1, 0.01) << item;
    // A turn ends with the item that uses it up.
    EXPECT_LT(*std::ranges::max_element(served.between), 1.25 + item) << item;
  }
}

TEST(IngestShareTest, ALongStepIsMadeUpForInTheGapsThatFollow) {
  std::vector<double> steps(1000, 1.0);
  for (size_t i = 50; i < steps.size(); i += 63) steps[i] = 6;
  const Served served = Serve(steps, 0.1);
  EXPECT_NEAR(served.ingest / served.steps, 1, 0.02);
  EXPECT_LT(*std::ranges::max_element(served.between), 1.8);
}

TEST(IngestShareTest, WhatAnIngestGetsOnIdleThreadsIsPartOfItsShare) {
  // A quarter of all time beside the steps: two of four quarters are left, and one of them is owed.
  EXPECT_NEAR(Serve(std::vector<double>(1000, 1.0), 0.1, 0.25).ingest, 500, 5);
  EXPECT_EQ(Serve(std::vector<double>(1000, 1.0), 0.1, 0.5).ingest, 0);
  EXPECT_EQ(Serve(std::vector<double>(1000, 1.0), 0.1, 0.9).ingest, 0);
}

TEST(IngestShareTest, LongStepsAreNotFollowedByLongTurns) {
  const Served served = Serve(std::vector<double>(100, 10.0), 0.5, 0, /*longest_turn=*/4);
  EXPECT_EQ(served.between, std::vector<double>(100, 4.0));
}

TEST(IngestShareTest, AfterWorkThatCouldNotBeInterruptedStepsRunForAsLong) {
  IngestShare share;
  share.AddStep(1, 0);
  ASSERT_TRUE(share.ingest_is_due());
  share.AddWhole(3);
  for (int step = 0; step < 3; ++step) {
    EXPECT_FALSE(share.ingest_is_due()) << step;
    share.AddStep(1.01, 0);
  }
  EXPECT_TRUE(share.ingest_is_due());
}

TEST(IngestShareTest, WhatIsOwedIsBounded) {
  IngestShare share;
  for (int step = 0; step < 1000; ++step) share.AddStep(1, 0);  // nothing to ingest
  double all = 0;
  for (int step = 0; step < 1000; ++step) {
    share.AddStep(1e-9, 0);
    for (; share.ingest_is_due(); all += 0.01) share.AddIngest(0.01);
  }
  EXPECT_LT(all, 9);
  share.AddStep(1, 0);
  share.Forget();
  EXPECT_FALSE(share.ingest_is_due());
}

}  // namespace
}  // namespace recollect::engine
