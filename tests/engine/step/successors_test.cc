#include "engine/step/successors.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recollect::engine {
namespace {

using kernels::ScoredCandidate;
using ::testing::ElementsAre;

// Candidates of runs of so many chunks.
std::vector<KeyRun> Runs(const std::vector<int64_t>& counts) {
  std::vector<KeyRun> runs;
  for (const int64_t count : counts) runs.push_back({nullptr, count});
  return runs;
}

std::vector<ScoredCandidate> After(const std::vector<int64_t>& counts, int n_ret, float bias,
                                   std::vector<ScoredCandidate> best) {
  AddSuccessors(Runs(counts), n_ret, bias, best);
  return best;
}

TEST(SuccessorsTest, TheNextChunkTakesTheLastPlace) {
  EXPECT_THAT(After({10}, 2, -1, {{4, 9}, {7, 5}}),
              ElementsAre(ScoredCandidate{4, 9}, ScoredCandidate{5, 8}));
}

TEST(SuccessorsTest, OneWithAHigherScoreOfItsOwnKeepsIt) {
  EXPECT_THAT(After({10}, 2, -4, {{4, 9}, {5, 8}}),
              ElementsAre(ScoredCandidate{4, 9}, ScoredCandidate{5, 8}));
  EXPECT_THAT(After({10}, 3, -1, {{4, 9}, {8, 7}, {5, 3}}),
              ElementsAre(ScoredCandidate{4, 9}, ScoredCandidate{5, 8}, ScoredCandidate{8, 7}));
}

TEST(SuccessorsTest, WhatIsGivenIsNotGivenOn) {
  // 5 gets 8, yet 6 gets 1 - 1 of what 5 has by itself.
  EXPECT_THAT(After({10}, 3, -1, {{4, 9}, {5, 1}, {0, 0.5f}}),
              ElementsAre(ScoredCandidate{4, 9}, ScoredCandidate{5, 8}, ScoredCandidate{0, 0.5f}));
}

TEST(SuccessorsTest, ARunEndsADocument) {
  const std::vector<ScoredCandidate> best = {{3, 9}, {8, 5}};
  EXPECT_EQ(After({4, 5}, 2, -1, best), best) << "3 and 8 are the last of theirs";
  EXPECT_EQ(After({4, 0, 5}, 2, -1, best), best);
  EXPECT_THAT(After({4, 6}, 2, -0.5f, {{3, 9}, {8, 9}}),
              ElementsAre(ScoredCandidate{3, 9}, ScoredCandidate{8, 9}));
}

TEST(SuccessorsTest, TiesGoToTheEarlierCandidate) {
  EXPECT_THAT(After({10}, 2, 0, {{4, 9}, {7, 9}}),
              ElementsAre(ScoredCandidate{4, 9}, ScoredCandidate{5, 9}));
  EXPECT_THAT(After({10}, 2, -4, {{8, 9}, {2, 5}}),
              ElementsAre(ScoredCandidate{8, 9}, ScoredCandidate{2, 5}));
}

TEST(SuccessorsTest, OnlyTheBestGiveAndTheRestIsReportedBehind) {
  EXPECT_THAT(After({10}, 1, -1, {{4, 9}, {7, 8.5f}, {1, 2}}),
              ElementsAre(ScoredCandidate{4, 9}, ScoredCandidate{7, 8.5f}, ScoredCandidate{5, 8}));
}

TEST(SuccessorsTest, NothingIsFoundAmongNothing) {
  EXPECT_THAT(After({}, 8, -1, {}), ElementsAre());
  EXPECT_THAT(After({1}, 8, -1, {{0, 3}}), ElementsAre(ScoredCandidate{0, 3}));
}

// As landmark search ranks them; a sort by `>` alone has no order of them.
TEST(SuccessorsTest, ScoresThatAreNotFiniteRankLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<ScoredCandidate> best = {{6, 2}};
  for (int64_t i = 0; i < 40; ++i) best.push_back({2 * i + 10, nan});
  AddSuccessors(Runs({100}), static_cast<int>(best.size()), -1, best);
  EXPECT_EQ(best[0], (ScoredCandidate{6, 2}));
  EXPECT_EQ(best[1], (ScoredCandidate{7, 1}));
  EXPECT_EQ(best[2].candidate, 10);
}

// docs/model-format.md: the same as r'_e = max(r_e, r_{e-1} + b) over all candidates.
TEST(SuccessorsTest, EqualsTheMaximumOverAllCandidates) {
  std::minstd_rand random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> counts(1 + random() % 4);
    std::vector<ScoredCandidate> all, expected;
    for (int64_t& count : counts) {
      count = static_cast<int64_t>(random() % 12);
      for (int64_t e = 0; e < count; ++e) {
        // Few values, so that there are ties.
        const auto score = static_cast<float>(random() % 8);
        expected.push_back({std::ssize(all), score});
        all.push_back(expected.back());
      }
    }
    const float bias = -0.5f * static_cast<float>(random() % 7);
    int64_t first = 0;
    for (const int64_t count : counts) {
      for (int64_t e = first + 1; e < first + count; ++e) {
        expected[e].score = std::max(all[e].score, all[e - 1].score + bias);
      }
      first += count;
    }
    const size_t n = std::min(all.size(), size_t{1} + random() % 8);
    for (auto* list : {&all, &expected}) {
      *list = kernels::MergeTopK(std::span(list, 1), static_cast<int>(n));
    }
    EXPECT_EQ(After(counts, static_cast<int>(n), bias, all), expected) << round;
  }
}

}  // namespace
}  // namespace recollect::engine
