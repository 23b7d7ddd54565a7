// What any device search over landmark keys must do, checked on the host run of the kernels' blocks
// and on a GPU alike: a runner is called as run(plan, queries, segments) and returns the outputs.
#ifndef RECOLLECT_TESTS_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_DEVICE_CHECKS_H_
#define RECOLLECT_TESTS_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_DEVICE_CHECKS_H_

#include <algorithm>
#include <limits>

#include "kernels/landmark_topk/landmark_topk.h"
#include "tests/kernels/cpu/kernel_test_util.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels::landmark_cases {

// As LandmarkTopKCuda leaves them: [queries, n].
struct Outputs {
  std::vector<int64_t> candidates;
  std::vector<float> scores;

  std::vector<ScoredCandidate> OfQuery(int64_t query, int n) const {
    std::vector<ScoredCandidate> best;
    for (int64_t i = query * n; i < (query + 1) * n; ++i) {
      best.push_back({candidates[i], scores[i]});
    }
    return best;
  }
};

// The plan's thread blocks, on the host.
inline Outputs RunOnHost(const LandmarkTopKPlan& plan, const std::vector<float>& queries,
                         const std::vector<KeySegment>& segments, HostOrder order) {
  const std::vector<SegmentStart> table = SegmentTable(segments);
  const auto places = static_cast<size_t>(plan.sizes.queries * plan.sizes.n);
  Outputs outputs{std::vector<int64_t>(places, -2), std::vector<float>(places, std::nanf(""))};
  if (places == 0) return outputs;
  std::vector<uint64_t> workspace(plan.workspace_bytes / sizeof(uint64_t), ~uint64_t{0});
  EXPECT_EQ(LandmarkTopKOnHost(order, plan, queries.data(), table.data(), workspace.data(),
                               {outputs.candidates.data(), outputs.scores.data()}),
            absl::OkStatus());
  return outputs;
}

template <typename Runner>
Outputs Run(const Runner& run, int width, const std::vector<float>& queries,
            const std::vector<KeySegment>& segments, int n, int multiprocessors) {
  int64_t count = 0;
  for (const KeySegment& segment : segments) count += segment.count;
  const absl::StatusOr<LandmarkTopKPlan> plan =
      PlanLandmarkTopK({.queries = static_cast<int64_t>(queries.size()) / width,
                        .width = width,
                        .candidates = count,
                        .n = n},
                       multiprocessors);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return run(*plan, queries, segments);
}

// Every score, with keys at any alignment.
template <typename Runner>
void CheckScoresMatchReference(const Runner& run) {
  for (int width : {1, 7, 16, 33, 64, 100, 256, 512, 640}) {
    for (int64_t count : {0, 1, 7, 17, 100, 256}) {
      SCOPED_TRACE(absl::StrCat(count, " x ", width));
      const std::vector<float> query = Normals(width, 1);
      const std::vector<Bf16> keys = NormalBf16(count * width + 1, 2);
      const int n = static_cast<int>(count) + (count < 256 ? 1 : 0);
      const Outputs outputs = Run(run, width, query, {{keys.data() + 1, count}}, n, 132);
      std::vector<float> expected(count);
      LandmarkScores(Scalar(), query.data(), width, keys.data() + 1, count, expected.data());
      std::vector<bool> found(count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t e = outputs.candidates[i];
        ASSERT_TRUE(e >= 0 && e < count && !found[e]) << e;
        found[e] = true;
        if (i > 0) {
          EXPECT_LE(outputs.scores[i], outputs.scores[i - 1]);
        }
        double magnitude = 0;
        for (int d = 0; d < width; ++d) {
          magnitude += std::abs(query[d] * keys[1 + e * width + d].ToFloat());
        }
        EXPECT_CLOSE(outputs.scores[i], expected[e], magnitude / std::sqrt(width),
                     testing::kLandmarkFactor);
      }
      for (int64_t i = count; i < n; ++i) {
        EXPECT_EQ(outputs.candidates[i], -1);
        EXPECT_EQ(outputs.scores[i], -std::numeric_limits<float>::infinity());
      }
    }
  }
}

// Against sorting every score, for each cut, batch and number of multiprocessors. Every third key
// is a copy of an earlier one, and scores rise with the candidate, so that lists are sorted often.
template <typename Runner>
void CheckAgreesWithSortingAllScores(const Runner& run, int64_t count) {
  const int width = 24, queries = 6;
  const std::vector<float> query = Normals(queries * width, 1);
  std::vector<float> numbers = Normals(count * width, 2);
  for (int64_t e = 0; e < count; ++e) {
    for (int d = 0; d < width; ++d) {
      numbers[e * width + d] += 4 * query[d] * static_cast<float>(e) / static_cast<float>(count);
    }
  }
  std::vector<Bf16> keys;
  for (float number : numbers) keys.push_back(Bf16::FromFloat(number));
  for (int64_t e = 3; e < count; e += 3) {
    std::copy_n(keys.begin() + e / 2 * width, width, keys.begin() + e * width);
  }
  // All scores, asked for 256 at a time.
  std::vector<std::vector<ScoredCandidate>> sorted(queries);
  for (int64_t first = 0; first < count; first += kMaxDeviceTopK) {
    const int n = static_cast<int>(std::min<int64_t>(kMaxDeviceTopK, count - first));
    const Outputs some = Run(run, width, query, {{keys.data() + first * width, n}}, n, 132);
    for (int q = 0; q < queries; ++q) {
      for (const ScoredCandidate& scored : some.OfQuery(q, n)) {
        sorted[q].push_back({scored.candidate + first, scored.score});
      }
    }
  }
  for (std::vector<ScoredCandidate>& all : sorted) {
    std::sort(all.begin(), all.end(), [](const ScoredCandidate& a, const ScoredCandidate& b) {
      return a.score != b.score ? a.score > b.score : a.candidate < b.candidate;
    });
  }
  struct Way {
    int n, multiprocessors, queries;
    int64_t cut;  // keys a segment
  };
  for (const Way& way : {Way{8, 132, queries, count}, Way{8, 1, 1, count}, Way{1, 2, 5, 1000},
                         Way{100, 132, 4, 129}, Way{256, 1, queries, 4999}}) {
    SCOPED_TRACE(absl::StrCat("n ", way.n, ", ", way.multiprocessors, " multiprocessors, ",
                              way.queries, " queries, cuts ", way.cut));
    // Each segment in memory of its own, at an odd place; empty ones between them.
    std::vector<std::vector<Bf16>> memory;
    std::vector<KeySegment> segments;
    for (int64_t first = 0; first < count; first += way.cut) {
      const int64_t length = std::min(way.cut, count - first);
      memory.emplace_back(1);
      memory.back().insert(memory.back().end(), keys.begin() + first * width,
                           keys.begin() + (first + length) * width);
    }
    for (const std::vector<Bf16>& keys_of : memory) {
      segments.push_back({nullptr, 0});
      segments.push_back({keys_of.data() + 1, (static_cast<int64_t>(keys_of.size()) - 1) / width});
    }
    const std::vector<float> some(query.begin(), query.begin() + way.queries * width);
    const Outputs outputs = Run(run, width, some, segments, way.n, way.multiprocessors);
    for (int q = 0; q < way.queries; ++q) {
      const std::vector<ScoredCandidate> expected(sorted[q].begin(), sorted[q].begin() + way.n);
      EXPECT_EQ(outputs.OfQuery(q, way.n), expected) << "query " << q;
    }
  }
}

// Scores of width 1 against the query {1}: ties, zeros of both signs, numbers that are none.
template <typename Runner>
void CheckOrder(const Runner& run) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto top = [&](std::initializer_list<float> scores, int n) {
    std::vector<Bf16> keys;
    for (float score : scores) keys.push_back(Bf16::FromFloat(score));
    const KeySegment segment{keys.data(), static_cast<int64_t>(keys.size())};
    return Run(run, 1, {1.0f}, {segment}, n, 132);
  };
  using Candidates = std::vector<int64_t>;
  EXPECT_EQ(top({2, 5, 5, 2, 5}, 4).candidates, (Candidates{1, 2, 4, 0}));
  EXPECT_EQ(top({0, -0.0f, 0}, 2).candidates, (Candidates{0, 1}));
  EXPECT_EQ(top({1, 3, 2}, 5).candidates, (Candidates{1, 2, 0, -1, -1}));
  EXPECT_EQ(top({1, 3, 2}, 0).candidates, Candidates{});
  const Outputs strange = top({std::nanf(""), kInf, -7, -kInf, 1}, 5);
  EXPECT_EQ(strange.candidates, (Candidates{4, 2, 0, 1, 3}));
  EXPECT_TRUE(std::isnan(strange.scores[2]));
  EXPECT_EQ(strange.scores[3], kInf);
  EXPECT_EQ(strange.scores[4], -kInf);
}

}  // namespace recollect::kernels::landmark_cases

#endif  // RECOLLECT_TESTS_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_DEVICE_CHECKS_H_
