// How a search over landmark keys runs on the CPU and on a device.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/landmark_topk/landmark_topk_plan.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/device_arrays.h"

namespace recollect::kernels {

inline ::testing::AssertionResult SameBits(
    const std::vector<std::vector<ScoredCandidate>>& actual,
    const std::vector<std::vector<ScoredCandidate>>& expected) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " and " << expected.size();
  }
  for (size_t q = 0; q < expected.size(); ++q) {
    std::vector<float> scores[2];
    std::vector<int64_t> candidates[2];
    for (const auto* best : {&actual[q], &expected[q]}) {
      const int side = best == &expected[q];
      for (const ScoredCandidate& scored : *best) {
        scores[side].push_back(scored.score);
        candidates[side].push_back(scored.candidate);
      }
    }
    if (candidates[0] != candidates[1]) {
      return ::testing::AssertionFailure() << "other candidates of query " << q;
    }
    if (auto same = SameBits(scores[0], scores[1]); !same) return same << ", query " << q;
  }
  return ::testing::AssertionSuccess();
}

namespace landmark_cases {

struct Call {
  static constexpr int kWays = 6;  // of RunOnDevice
  int width = 0;
  std::vector<float> queries = {};  // [queries, width]
  std::vector<KeySegment> segments = {};
  int n = 0;  // at most kMaxDeviceTopK on a device

  int64_t query_count() const { return static_cast<int64_t>(queries.size()) / width; }
  int64_t candidates() const {
    int64_t count = 0;
    for (const KeySegment& segment : segments) count += segment.count;
    return count;
  }
};

// A run returns the best of each query.
using Best = std::vector<ScoredCandidate>;

inline std::vector<Best> RunOnCpu(OpContext& ctx, const Call& call) {
  std::vector<Best> results;
  for (int64_t q = 0; q < call.query_count(); ++q) {
    const std::span query(call.queries.data() + q * call.width, call.width);
    results.push_back(LandmarkTopK(ctx, query, call.segments, call.n));
  }
  return results;
}

// Plans for 132, 1 and 2 multiprocessors, with keys at aligned addresses, for which a plan may have
// a way of its own, and an element past them; by a filter for 2 and aligned keys, where it can.
inline absl::StatusOr<LandmarkTopKPlan> PlanOf(const Call& call, int way) {
  constexpr int kMultiprocessors[] = {132, 1, 2};
  const LandmarkTopKSizes sizes{.queries = call.query_count(),
                                .width = call.width,
                                .candidates = call.candidates(),
                                .n = call.n,
                                .aligned = way / 3 == 0};
  if (way == 2) {
    auto plan = PlanLandmarkTopK(sizes, 2, LandmarkTopKPlan::Strategy::kFilter);
    if (plan.ok()) return plan;
  }
  return PlanLandmarkTopK(sizes, kMultiprocessors[way % 3]);
}

inline std::vector<Best> RunOnDevice(Device& device, const Call& call, int way) {
  const int64_t queries = call.query_count(), places = queries * call.n;
  const absl::StatusOr<LandmarkTopKPlan> plan = PlanOf(call, way);
  EXPECT_TRUE(plan.ok()) << plan.status();
  device_cases::Arrays arrays(device);
  std::vector<KeySegment> segments;
  for (const KeySegment& segment : call.segments) {
    const std::vector<Bf16> keys(segment.keys, segment.keys + segment.count * call.width);
    segments.push_back({arrays.Place(keys, way / 3), segment.count});
  }
  LandmarkTopKOp op;
  op.plan = *plan;
  op.queries = arrays.Place(call.queries);
  op.segments = arrays.Place(SegmentTable(segments));
  op.workspace = arrays.Allocate(plan->workspace_bytes);
  op.candidates = arrays.Place(std::vector<int64_t>(places, -2));
  op.scores = arrays.Place(std::vector<float>(places, std::nanf("")));
  EXPECT_EQ(device.Run(op), absl::OkStatus());
  const std::vector<int64_t> candidates = arrays.Read(op.candidates, places);
  const std::vector<float> scores = arrays.Read(op.scores, places);
  std::vector<Best> results(queries);
  for (int64_t i = 0; i < places; ++i) {
    if (i % call.n < call.candidates()) {
      results[i / call.n].push_back({candidates[i], scores[i]});
      continue;
    }
    EXPECT_EQ(candidates[i], -1) << "beyond the last candidate, at " << i;
    EXPECT_EQ(scores[i], -std::numeric_limits<float>::infinity()) << "at " << i;
  }
  return results;
}

// Queries, and keys with many exact ties: every third is a copy of an earlier one. Scores rise with
// the candidate, so that lists are sorted often.
struct RisingKeys {
  RisingKeys(int64_t of, int of_width, int of_queries)
      : count(of), width(of_width), queries(Normals(of_queries * of_width, 1)) {
    std::vector<float> numbers = Normals(count * width, 2);
    for (int64_t e = 0; e < count; ++e) {
      for (int d = 0; d < width; ++d) {
        numbers[e * width + d] +=
            4 * queries[d] * static_cast<float>(e) / static_cast<float>(count);
      }
    }
    for (float number : numbers) keys.push_back(Bf16::FromFloat(number));
    for (int64_t e = 3; e < count; e += 3) {
      std::copy_n(keys.begin() + e / 2 * width, width, keys.begin() + e * width);
    }
  }
  int64_t count;
  int width;
  std::vector<float> queries;
  std::vector<Bf16> keys;
};

// Against sorting every score, for each cut, batch and n up to `most`. run(call) returns the best.
template <typename Run>
void CheckAgreesWithSortingAllScores(const Run& run, const RisingKeys& all, int most) {
  const int queries = static_cast<int>(all.queries.size()) / all.width;
  // All scores, asked for 256 at a time.
  std::vector<Best> sorted(queries);
  for (int64_t first = 0; first < all.count; first += kMaxDeviceTopK) {
    const int n = static_cast<int>(std::min<int64_t>(kMaxDeviceTopK, all.count - first));
    const std::vector<Best> some =
        run(Call{all.width, all.queries, {{all.keys.data() + first * all.width, n}}, n});
    for (int q = 0; q < queries; ++q) {
      for (const ScoredCandidate& scored : some[q]) {
        sorted[q].push_back({scored.candidate + first, scored.score});
      }
    }
  }
  for (Best& best : sorted) {
    std::sort(best.begin(), best.end(), [](const ScoredCandidate& a, const ScoredCandidate& b) {
      return a.score != b.score ? a.score > b.score : a.candidate < b.candidate;
    });
  }
  struct Cut {
    int n, queries;
    int64_t keys;  // a segment
  };
  for (const Cut& cut :
       {Cut{8, queries, all.count}, Cut{8, 1, all.count}, Cut{1, 5, 1000}, Cut{100, 4, 129},
        Cut{256, queries, 4999}, Cut{0, 1, 100}, Cut{100, 2, 1}, Cut{6000, 2, 1024}}) {
    if (cut.n > most) continue;
    SCOPED_TRACE(absl::StrCat("n ", cut.n, ", ", cut.queries, " queries, cuts ", cut.keys));
    // Each segment in memory of its own, at an odd place; empty ones between them.
    std::vector<std::vector<Bf16>> memory;
    Call call{.width = all.width, .n = cut.n};
    call.queries.assign(all.queries.begin(), all.queries.begin() + cut.queries * all.width);
    for (int64_t first = 0; first < all.count; first += cut.keys) {
      const int64_t length = std::min(cut.keys, all.count - first);
      memory.emplace_back(1);
      memory.back().insert(memory.back().end(), all.keys.begin() + first * all.width,
                           all.keys.begin() + (first + length) * all.width);
    }
    for (const std::vector<Bf16>& keys : memory) {
      call.segments.push_back({nullptr, 0});
      call.segments.push_back(
          {keys.data() + 1, (static_cast<int64_t>(keys.size()) - 1) / all.width});
    }
    const std::vector<Best> found = run(call);
    ASSERT_EQ(static_cast<int>(found.size()), cut.queries);
    for (int q = 0; q < cut.queries; ++q) {
      const auto end = sorted[q].begin() + std::min<int64_t>(cut.n, all.count);
      EXPECT_EQ(found[q], Best(sorted[q].begin(), end)) << "query " << q;
    }
  }
}

}  // namespace landmark_cases
}  // namespace recollect::kernels
