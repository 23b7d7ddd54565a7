#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/step/recall.h"

namespace recollect::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr float kDistance = 1;

bool None(int64_t /*candidate*/) { return false; }

std::vector<int64_t> Candidates(const Recalled& recalled) {
  std::vector<int64_t> candidates;
  for (const kernels::ScoredCandidate& block : recalled.blocks) {
    candidates.push_back(block.candidate);
  }
  return candidates;
}

TEST(WeighBlocksTest, WeightsAreASoftmaxOverBlocksAndNothing) {
  const std::vector<kernels::ScoredCandidate> found = {{7, 2}, {3, 1}, {5, 0.5F}};
  const Recalled recalled = WeighBlocks(found, 0, 2, kDistance, None);
  const float sum = std::exp(2.F) + std::exp(1.F) + 1;
  EXPECT_THAT(Candidates(recalled), ElementsAre(7, 3, 5));
  EXPECT_THAT(recalled.weights, ElementsAre(FloatNear(std::exp(2.F) / sum, 1e-6F),
                                            FloatNear(std::exp(1.F) / sum, 1e-6F)));
  EXPECT_NEAR(recalled.nothing, 1 / sum, 1e-6);
}

TEST(WeighBlocksTest, ABlockThatIsFoundAndFollowsAnotherHasBothWeights) {
  const std::vector<kernels::ScoredCandidate> found = {{3, 2}, {4, 1}};
  const Recalled recalled =
      WeighBlocks(found, 0, 2, kDistance, [](int64_t candidate) { return candidate == 3; });
  const float sum = std::exp(2.F) + 2 * std::exp(1.F) + 1;
  EXPECT_THAT(Candidates(recalled), ElementsAre(3, 4));
  EXPECT_NEAR(recalled.weights[1], 2 * std::exp(1.F) / sum, 1e-6);
}

TEST(WeighBlocksTest, WhatWasFoundIsRankedAmongThoseThatOnlyFollow) {
  const std::vector<kernels::ScoredCandidate> found = {{7, 4}, {3, 1}, {5, 0.5F}};
  const Recalled recalled =
      WeighBlocks(found, 0, 2, kDistance, [](int64_t candidate) { return candidate == 7; });
  EXPECT_THAT(Candidates(recalled), ElementsAre(7, 8, 3, 5));
  EXPECT_THAT(recalled.found, ElementsAre(0, 2, 3));
}

TEST(WeighBlocksTest, BlocksAreReadIfTogetherTheyAreLikelierThanNothing) {
  const std::vector<kernels::ScoredCandidate> found = {{0, 0}, {9, 0}};
  const Recalled read = WeighBlocks(found, std::log(1.9F), 2, kDistance, None);
  EXPECT_TRUE(read.layers_read());
  EXPECT_NEAR(read.nothing, 1.9 / 3.9, 1e-6);
  const Recalled left = WeighBlocks(found, std::log(2.1F), 2, kDistance, None);
  EXPECT_FALSE(left.layers_read());
  EXPECT_LT(WeighBlocks(found, 99, 2, kDistance, None).nothing, 1);
  EXPECT_THAT(left.blocks, SizeIs(2));
  EXPECT_NEAR(left.nothing, 2.1 / 4.1, 1e-6);
}

TEST(WeighBlocksTest, WithoutBlocksThereIsNothing) {
  const Recalled recalled = WeighBlocks({}, -3, 4, kDistance, None);
  EXPECT_THAT(recalled.blocks, IsEmpty());
  EXPECT_EQ(recalled.nothing, 1);
}

}  // namespace
}  // namespace recollect::engine
