// The search for many queries by a filter on tensor cores, with which nobody may notice that there
// is a filter.
#include <gmock/gmock.h>

#include <limits>

#include "kernels/landmark_topk/landmark_decide_kernel.h"
#include "tests/kernels/device/host_launches.h"
#include "tests/kernels/landmark_topk/landmark_topk_cases.h"

namespace recollect::kernels {
namespace {

using landmark_cases::Best;
using landmark_cases::Call;
using ::testing::Each;

struct Answer {
  std::vector<Best> best;
  std::vector<int32_t> doubts;  // of each query; by a filter only
};

Answer RunOnHost(const Call& call, LandmarkTopKPlan::Strategy strategy, int multiprocessors,
                 HostOrder order = HostOrder::kPhases) {
  const int64_t queries = call.query_count();
  const absl::StatusOr<LandmarkTopKPlan> plan =
      PlanLandmarkTopK({.queries = queries,
                        .width = call.width,
                        .candidates = call.candidates(),
                        .n = call.n,
                        .aligned = strategy != LandmarkTopKPlan::Strategy::kTiles},
                       multiprocessors, strategy);
  EXPECT_TRUE(plan.ok()) << plan.status();
  const std::vector<SegmentStart> table = SegmentTable(call.segments);
  // What a workspace holds at first is any number.
  std::vector<uint64_t> workspace(static_cast<size_t>(plan->workspace_bytes / 8), ~uint64_t{0});
  std::vector<int64_t> candidates(static_cast<size_t>(queries * call.n), -2);
  std::vector<float> scores(candidates.size(), std::nanf(""));
  const LandmarkTopKOp op{
      *plan, call.queries.data(), table.data(), workspace.data(), candidates.data(), scores.data()};
  EXPECT_EQ(OnHost(order, op), absl::OkStatus());
  Answer answer;
  for (int64_t q = 0; q < queries; ++q) {
    Best& best = answer.best.emplace_back();
    for (int64_t i = q * call.n; i < (q + 1) * call.n; ++i) {
      if (candidates[i] >= 0) best.push_back({candidates[i], scores[i]});
    }
  }
  if (strategy == LandmarkTopKPlan::Strategy::kFilter) {
    answer.doubts.assign(cuda::DoubtsOf(op), cuda::DoubtsOf(op) + queries);
  }
  return answer;
}

Answer Exact(const Call& call) { return RunOnHost(call, LandmarkTopKPlan::Strategy::kTiles, 1); }
Answer Filtered(const Call& call, int multiprocessors, HostOrder order = HostOrder::kPhases) {
  return RunOnHost(call, LandmarkTopKPlan::Strategy::kFilter, multiprocessors, order);
}

// Keys at multiples of 16 bytes.
struct Keys {
  explicit Keys(std::vector<Bf16> of) : numbers(std::move(of)) {
    memory.resize(numbers.size() + 8);
    while (!cuda::IsAligned(memory.data() + shift)) ++shift;
    std::copy(numbers.begin(), numbers.end(), memory.begin() + shift);
  }
  const Bf16* data() const { return memory.data() + shift; }
  std::vector<Bf16> numbers, memory;
  int64_t shift = 0;
};

// Several tiles of queries, parts and segments; parts end within segments and within steps.
TEST(LandmarkFilterTest, HasTheBitsOfTilesAndNoDoubtAboutPlainNumbers) {
  for (const int width : {64, 128, 256}) {
    const int64_t count = 1501;
    const Keys keys(NormalBf16(count * width, 2));
    for (const int queries : {1, 5, 64, 70}) {
      SCOPED_TRACE(absl::StrCat("width ", width, ", ", queries, " queries"));
      const Call call{width,
                      Normals(queries * width, 1),
                      {{keys.data(), 777}, {nullptr, 0}, {keys.data() + 777 * width, count - 777}},
                      8};
      const Answer filtered = Filtered(call, 8);
      EXPECT_TRUE(SameBits(filtered.best, Exact(call).best));
      EXPECT_THAT(filtered.doubts, Each(0));
    }
  }
}

// A missing barrier, a copy that nobody awaits, and threads of a phase that depend on each other
// would show.
TEST(LandmarkFilterTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  const int width = 64;
  const landmark_cases::RisingKeys rising(700, width, 9);  // so that much has to be kept
  const Keys keys(rising.keys);
  const Call call{width, rising.queries, {{keys.data(), rising.count}}, 8};
  const Answer exact = Exact(call);
  const Answer expected = Filtered(call, 2);
  for (HostOrder order : kHostOrders) {
    const Answer answer = Filtered(call, 2, order);
    EXPECT_TRUE(SameBits(answer.best, exact.best)) << static_cast<int>(order);
    EXPECT_EQ(answer.doubts, expected.doubts) << static_cast<int>(order);
  }
}

TEST(LandmarkFilterTest, FewerCandidatesThanAskedOrKept) {
  const int width = 64;
  const Keys keys(NormalBf16(20 * width, 2));
  for (const int64_t count : {0, 1, 7, 8, 15, 16, 17}) {
    for (const int n : {1, 8}) {
      const Call call{width, Normals(6 * width, 1), {{keys.data(), count}}, n};
      EXPECT_TRUE(SameBits(Filtered(call, 1).best, Exact(call).best)) << count << ", n " << n;
    }
  }
}

// The rounded query likes twenty keys better than the best one, which is none of the 16 kept.
TEST(LandmarkFilterTest, WhatRoundingHidesIsFoundByTiles) {
  const int width = 64;
  std::vector<float> query(width);
  for (int d = 0; d < width; ++d) query[d] = d % 2 == 0 ? 1.0018f : 0.9981f;  // both become 1
  std::vector<Bf16> numbers(21 * width);
  for (int e = 0; e < 21; ++e) {
    Bf16* const key = numbers.data() + e * width;
    const int odd = e < 20 ? 1 : 0;
    key[odd] = key[2 + odd] = Bf16::FromFloat(1);
    if (e < 20) key[5] = Bf16::FromFloat(0.002f);
  }
  const Keys keys(numbers);
  const Call call{width, query, {{keys.data(), 21}}, 3};
  const Answer answer = Filtered(call, 1);
  EXPECT_THAT(answer.doubts, Each(1));
  EXPECT_EQ(answer.best[0][0].candidate, 20);
  EXPECT_TRUE(SameBits(answer.best, Exact(call).best));
}

// A query in doubt costs others nothing: they are answered by the filter.
TEST(LandmarkFilterTest, OnlyQueriesWithTiesAreInDoubt) {
  const int width = 64;
  const int64_t count = 400;
  std::vector<Bf16> numbers = NormalBf16(count * width, 2);
  std::vector<float> queries = Normals(6 * width, 1);
  for (int64_t e = 100; e < 130; ++e) {  // thirty times what query 4 likes best
    for (int d = 0; d < width; ++d) {
      numbers[e * width + d] = Bf16::FromFloat(queries[4 * width + d]);
    }
  }
  const Keys keys(numbers);
  const Call call{width, queries, {{keys.data(), count}}, 8};
  const Answer answer = Filtered(call, 3);
  EXPECT_THAT(answer.doubts, ::testing::ElementsAre(0, 0, 0, 0, 1, 0));
  EXPECT_TRUE(SameBits(answer.best, Exact(call).best));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(answer.best[4][i].candidate, 100 + i);
}

TEST(LandmarkFilterTest, WhatIsNoNumberIsSearchedByTiles) {
  const int width = 64;
  const int64_t count = 300;
  for (const float strange : {std::nanf(""), std::numeric_limits<float>::infinity(), 3e38f}) {
    std::vector<Bf16> numbers = NormalBf16(count * width, 2);
    numbers[17 * width + 3] = Bf16::FromFloat(strange);
    const Keys with(numbers), without(NormalBf16(count * width, 2));
    std::vector<float> queries = Normals(6 * width, 1);
    const Call key{width, queries, {{with.data(), count}}, 8};
    Answer answer = Filtered(key, 3);
    EXPECT_THAT(answer.doubts, Each(1)) << strange;
    EXPECT_TRUE(SameBits(answer.best, Exact(key).best)) << strange;
    queries[2 * width + 5] = strange;
    const Call query{width, queries, {{without.data(), count}}, 8};
    answer = Filtered(query, 3);
    EXPECT_THAT(answer.doubts, ::testing::ElementsAre(0, 0, 1, 0, 0, 0)) << strange;
    EXPECT_TRUE(SameBits(answer.best, Exact(query).best)) << strange;
  }
}

TEST(LandmarkFilterTest, PlansChooseItForManyQueriesOverManyKeys) {
  using enum LandmarkTopKPlan::Strategy;
  const auto strategy = [](const LandmarkTopKSizes& sizes) {
    return PlanLandmarkTopK(sizes, 132)->strategy;
  };
  EXPECT_EQ(strategy({5, 256, 1 << 20, 8, true}), kFilter);
  EXPECT_EQ(strategy({4, 256, 1 << 20, 8, true}), kTiles);
  EXPECT_EQ(strategy({5, 256, 32767, 8, true}), kTiles);
  EXPECT_EQ(strategy({5, 256, 1 << 20, 9, true}), kTiles);
  EXPECT_EQ(strategy({5, 192, 1 << 20, 8, true}), kTiles);
  EXPECT_EQ(strategy({5, 256, 1 << 20, 8, false}), kTiles);
  EXPECT_THAT(
      PlanLandmarkTopK({5, 192, 1 << 20, 8, true}, 132, kFilter).status().message(),
      ::testing::HasSubstr("width 192, aligned, n 8: expected aligned keys of width 64, 128"));
}

TEST(LandmarkFilterTest, PartsCoverTheCandidatesOnce) {
  for (const int64_t count : {0, 1, 128, 129, 1 << 20, 5000001}) {
    for (const int queries : {5, 64, 65, 1000}) {
      const auto plan = PlanLandmarkTopK({queries, 256, count, 8, true}, 132,
                                         LandmarkTopKPlan::Strategy::kFilter);
      ASSERT_TRUE(plan.ok());
      EXPECT_EQ(plan->filter_tiles, (queries + 63) / 64);
      EXPECT_GE(plan->filter_parts * plan->filter_part_keys, count);
      EXPECT_LT((plan->filter_parts - 1) * plan->filter_part_keys, std::max<int64_t>(count, 1));
      EXPECT_EQ(plan->filter_part_keys % 128, 0);
      EXPECT_LE(plan->filter_tiles * plan->filter_parts, 132 + plan->filter_tiles);
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
