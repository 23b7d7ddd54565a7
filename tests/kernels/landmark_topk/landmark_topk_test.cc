#include "kernels/landmark_topk/landmark_topk.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int64_t> Candidates(const std::vector<ScoredCandidate>& results) {
  std::vector<int64_t> candidates;
  for (const ScoredCandidate& result : results) candidates.push_back(result.candidate);
  return candidates;
}

// Keys of width 1 whose scores against the query {1} are the given numbers.
std::vector<Bf16> Keys(std::initializer_list<float> scores) {
  std::vector<Bf16> keys;
  for (float score : scores) keys.push_back(Bf16::FromFloat(score));
  return keys;
}

std::vector<int64_t> TopOf(const std::vector<Bf16>& keys, int n) {
  OpContext ctx;
  const float query = 1;
  const KeySegment segment{keys.data(), static_cast<int64_t>(keys.size())};
  return Candidates(LandmarkTopK(ctx, {&query, 1}, {&segment, 1}, n));
}

TEST(LandmarkScoresTest, MatchReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t width : {1, 7, 16, 33, 64, 100, 256, 512, 640}) {
      for (int64_t count : {0, 1, 7, 16, 17, 100}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", count, " x ", width));
        const std::vector<float> query = Normals(width, 1);
        const std::vector<Bf16> keys = NormalBf16(count * width + 1, 2);
        Guarded scores(count), expected(count);
        LandmarkScores(ctx, query.data(), width, keys.data() + 1, count, scores.data());
        LandmarkScores(Scalar(), query.data(), width, keys.data() + 1, count, expected.data());
        for (int64_t e = 0; e < count; ++e) {
          double magnitude = 0;
          for (int64_t i = 0; i < width; ++i) {
            magnitude += std::abs(query[i] * keys[1 + e * width + i].ToFloat());
          }
          EXPECT_CLOSE(scores[e], expected[e], magnitude / std::sqrt(width),
                       testing::kLandmarkFactor);
        }
      }
    }
  }
}

TEST(LandmarkScoresTest, AKeyHasTheSameBitsAtAnyPlace) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t width : {33, 256}) {
      SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", width));
      const int64_t count = 50;
      const std::vector<float> query = Normals(width, 1);
      const std::vector<Bf16> keys = NormalBf16(count * width, 2);
      std::vector<float> together(count), alone(count);
      LandmarkScores(ctx, query.data(), width, keys.data(), count, together.data());
      for (int64_t e = 0; e < count; ++e) {
        LandmarkScores(ctx, query.data(), width, keys.data() + e * width, 1, &alone[e]);
      }
      EXPECT_TRUE(SameBits(alone, together));
    }
  }
}

TEST(LandmarkTopKTest, AgreesWithSortingAllScores) {
  const int64_t width = 64, count = 5000;
  const std::vector<float> query = Normals(width, 1);
  std::vector<Bf16> keys = NormalBf16(count * width, 2);
  // Many exact ties: every third key is a copy of an earlier one.
  for (int64_t e = 3; e < count; e += 3) {
    std::copy_n(keys.begin() + (e / 2) * width, width, keys.begin() + e * width);
  }
  for (const Isa isa : RunnableIsas()) {
    SCOPED_TRACE(IsaName(isa));
    OpContext ctx(isa);
    std::vector<float> scores(count);
    LandmarkScores(ctx, query.data(), width, keys.data(), count, scores.data());
    std::vector<ScoredCandidate> sorted;
    for (int64_t e = 0; e < count; ++e) sorted.push_back({e, scores[e]});
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.score > b.score; });
    for (int n : {0, 1, 8, 100, 6000}) {
      const std::vector<ScoredCandidate> expected(sorted.begin(),
                                                  sorted.begin() + std::min<int64_t>(n, count));
      for (int64_t cut : {1, 100, 1024, 4999, 5000}) {
        std::vector<KeySegment> segments;
        std::vector<std::vector<ScoredCandidate>> parts;
        for (int64_t first = 0; first < count; first += cut) {
          segments.push_back({keys.data() + first * width, std::min(cut, count - first)});
          parts.push_back(LandmarkTopK(ctx, query, {&segments.back(), 1}, n));
          for (ScoredCandidate& result : parts.back()) result.candidate += first;
        }
        EXPECT_EQ(LandmarkTopK(ctx, query, segments, n), expected) << n << " of cuts " << cut;
        EXPECT_EQ(MergeTopK(parts, n), expected) << n << " of cuts " << cut;
      }
    }
  }
}

TEST(LandmarkTopKTest, FewerCandidatesThanAsked) {
  EXPECT_THAT(TopOf({}, 8), IsEmpty());
  EXPECT_THAT(TopOf(Keys({1, 3, 2}), 8), ElementsAre(1, 2, 0));
  EXPECT_THAT(TopOf(Keys({1, 3, 2}), 0), IsEmpty());
  EXPECT_THAT(MergeTopK({}, 3), IsEmpty());
}

TEST(LandmarkTopKTest, TiesGoToTheEarlierCandidate) {
  EXPECT_THAT(TopOf(Keys({2, 5, 5, 2, 5}), 4), ElementsAre(1, 2, 4, 0));
  EXPECT_THAT(TopOf(Keys({0, -0.0f, 0}), 2), ElementsAre(0, 1));
}

TEST(LandmarkTopKTest, ScoresThatAreNoNumbersRankLast) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(TopOf(Keys({std::nanf(""), kInf, -7, -kInf, 1}), 5), ElementsAre(4, 2, 0, 1, 3));
  EXPECT_THAT(TopOf(Keys({std::nanf(""), kInf, -7}), 1), ElementsAre(2));
}

}  // namespace
}  // namespace recollect::kernels
