#include "kernels/landmark_topk/landmark_topk.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/landmark_topk/landmark_topk_cases.h"

namespace recollect::kernels {
namespace {

using landmark_cases::Best;
using landmark_cases::Call;
using landmark_cases::RisingKeys;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LandmarkTopKTest : public OpTest<Call> {
 protected:
  // Of keys of width 1 whose scores against the query {1} are the given numbers.
  Best TopOf(std::initializer_list<float> scores, int n) {
    std::vector<Bf16> keys;
    for (float score : scores) keys.push_back(Bf16::FromFloat(score));
    return RunInAllWays({1, {1.0f}, {{keys.data(), static_cast<int64_t>(keys.size())}}, n})[0];
  }
  std::vector<int64_t> CandidatesOf(std::initializer_list<float> scores, int n) {
    std::vector<int64_t> candidates;
    for (const ScoredCandidate& best : TopOf(scores, n)) candidates.push_back(best.candidate);
    return candidates;
  }
};
class LandmarkTopKDeviceTest : public LandmarkTopKTest {};

// Every score, with keys at any alignment; the CPU says them without a search, too.
TEST_P(LandmarkTopKTest, ScoresMatchReference) {
  for (int width : {1, 7, 16, 33, 64, 100, 256, 512, 640}) {
    for (int64_t count : {0, 1, 7, 16, 17, 100, 256}) {
      SCOPED_TRACE(absl::StrCat(count, " x ", width));
      const std::vector<float> query = Normals(width, 1);
      const std::vector<Bf16> keys = NormalBf16(count * width + 1, 2);
      const int n = static_cast<int>(count) + (count < 256 ? 1 : 0);
      const Best found = RunInAllWays({width, query, {{keys.data() + 1, count}}, n})[0];
      ASSERT_EQ(static_cast<int64_t>(found.size()), count);
      std::vector<float> expected(count);
      LandmarkScores(Scalar(), query.data(), width, keys.data() + 1, count, expected.data());
      Guarded alone(count);
      if (on_cpu()) {
        LandmarkScores(ctx_, query.data(), width, keys.data() + 1, count, alone.data());
      }
      std::vector<bool> seen(count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t e = found[i].candidate;
        ASSERT_TRUE(e >= 0 && e < count && !seen[e]) << e;
        seen[e] = true;
        if (i > 0) {
          EXPECT_LE(found[i].score, found[i - 1].score);
        }
        double magnitude = 0;
        for (int d = 0; d < width; ++d) {
          magnitude += std::abs(query[d] * keys[1 + e * width + d].ToFloat());
        }
        EXPECT_CLOSE(found[i].score, expected[e], magnitude / std::sqrt(width),
                     testing::kLandmarkFactor);
        if (on_cpu()) {
          EXPECT_EQ(alone[e], found[i].score);
        }
      }
    }
  }
}

TEST_P(LandmarkTopKTest, AKeyHasTheSameBitsAtAnyPlace) {
  for (int width : {33, 256}) {
    const int64_t count = 50;
    const std::vector<float> query = Normals(width, 1);
    const std::vector<Bf16> keys = NormalBf16(count * width, 2);
    const Best together = Run({width, query, {{keys.data(), count}}, 50})[0];
    for (const ScoredCandidate& best : together) {
      const Bf16* const key = keys.data() + best.candidate * width;
      EXPECT_EQ(Run({width, query, {{key, 1}}, 1})[0][0].score, best.score) << best.candidate;
    }
  }
}

TEST_P(LandmarkTopKTest, AgreesWithSortingAllScores) {
#ifdef RECOLLECT_TEST_ON_CUDA
  const int64_t count = 100003;
#else
  const int64_t count = 5000;
#endif
  for (int width : {24, 64}) {
    landmark_cases::CheckAgreesWithSortingAllScores([&](const Call& call) { return Run(call); },
                                                    RisingKeys(count, width, 6),
                                                    on_cpu() ? 6000 : kMaxDeviceTopK);
  }
}

TEST_P(LandmarkTopKTest, FewerCandidatesThanAsked) {
  EXPECT_THAT(CandidatesOf({}, 8), IsEmpty());
  EXPECT_THAT(CandidatesOf({1, 3, 2}, 8), ElementsAre(1, 2, 0));
  EXPECT_THAT(CandidatesOf({1, 3, 2}, 0), IsEmpty());
}

TEST_P(LandmarkTopKTest, TiesGoToTheEarlierCandidate) {
  EXPECT_THAT(CandidatesOf({2, 5, 5, 2, 5}, 4), ElementsAre(1, 2, 4, 0));
  EXPECT_THAT(CandidatesOf({0, -0.0f, 0}, 2), ElementsAre(0, 1));
}

TEST_P(LandmarkTopKTest, ScoresThatAreNoNumbersRankLast) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_THAT(CandidatesOf({std::nanf(""), kInf, -7}, 1), ElementsAre(2));
  const std::initializer_list<float> strange = {std::nanf(""), kInf, -7, -kInf, 1};
  EXPECT_THAT(CandidatesOf(strange, 5), ElementsAre(4, 2, 0, 1, 3));
  const Best best = TopOf(strange, 5);
  EXPECT_TRUE(std::isnan(best[2].score));
  EXPECT_EQ(best[3].score, kInf);
  EXPECT_EQ(best[4].score, -kInf);
}

TEST_P(LandmarkTopKDeviceTest, HasTheBitsOfTheHost) {
  HostDevice host;
  for (int width : {33, 128}) {
    const int64_t count = 9001;
    const std::vector<Bf16> keys = NormalBf16(count * width, 2);
    const Call call{width, Normals(5 * width, 1), {{keys.data(), count}}, 8};
    EXPECT_TRUE(SameBits(RunInAllWays(call), RunOnDevice(host, call, 0))) << width;
  }
}

#ifdef RECOLLECT_TEST_ON_CUDA
// Millions of keys, whose best are known: all are zero but some.
TEST_P(LandmarkTopKDeviceTest, FindsAFewAmongMillions) {
  const int width = 16;
  const int64_t count = 4000037;
  std::vector<Bf16> keys(count * width);
  Best expected;
  for (const int64_t place : {3999999, 0, 2000000, 1023, 1024, 4000036}) {
    const auto score = static_cast<float>(8 - expected.size());
    keys[place * width + 3] = Bf16::FromFloat(score);
    expected.push_back({place, score / 4});
  }
  for (const int64_t place : {1, 2}) expected.push_back({place, 0});
  std::vector<float> query(width);
  query[3] = 1;
  EXPECT_EQ(Run({width, query, {{keys.data(), count}}, 8})[0], expected);
}
#endif

INSTANTIATE_TEST_SUITE_P(Runners, LandmarkTopKTest, ::testing::ValuesIn(Runners()), NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, LandmarkTopKDeviceTest, ::testing::Values(Runner()),
                         NameOfRunner);

TEST(MergeTopKTest, GivesTheBestOfAllParts) {
  const RisingKeys all(5000, 64, 1);
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int n : {0, 1, 8, 100, 6000}) {
      const KeySegment whole{all.keys.data(), all.count};
      const Best expected = LandmarkTopK(ctx, all.queries, {&whole, 1}, n);
      for (int64_t cut : {1, 100, 1024, 4999, 5000}) {
        std::vector<KeySegment> segments;
        std::vector<Best> parts;
        for (int64_t first = 0; first < all.count; first += cut) {
          segments.push_back(
              {all.keys.data() + first * all.width, std::min(cut, all.count - first)});
          parts.push_back(LandmarkTopK(ctx, all.queries, {&segments.back(), 1}, n));
          for (ScoredCandidate& best : parts.back()) best.candidate += first;
        }
        EXPECT_EQ(LandmarkTopK(ctx, all.queries, segments, n), expected) << n << " of cuts " << cut;
        EXPECT_EQ(MergeTopK(parts, n), expected) << n << " of cuts " << cut;
      }
    }
  }
  EXPECT_THAT(MergeTopK({}, 3), IsEmpty());
}

}  // namespace
}  // namespace recollect::kernels
