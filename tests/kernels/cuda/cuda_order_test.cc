#include "kernels/cuda/cuda_order.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "kernels/landmark_topk/landmark_topk.h"
#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels::cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(CudaOrderTest, PackedCandidatesAreOrderedAndKeepTheirScores) {
  // Best first: greater scores, then earlier candidates, then what is not finite.
  const std::vector<ScoredCandidate> ordered = {
      {7, std::numeric_limits<float>::max()},
      {3, 1.5f},
      {4, 1.5f},
      {1, std::numeric_limits<float>::denorm_min()},
      {0, -0.0f},
      {2, 0.0f},
      {5, -0.0f},
      {6, -std::numeric_limits<float>::denorm_min()},
      {9, -2.5f},
      {kMaxCandidates - 1, -2.5f},
      {8, -std::numeric_limits<float>::max()},
      {10, kInf},
      {11, std::nanf("")},
      {12, -kInf},
      {kMaxCandidates - 1, std::nanf("")},
  };
  uint64_t before = ~uint64_t{0};
  for (const ScoredCandidate& scored : ordered) {
    const uint64_t packed = PackCandidate(scored.score, scored.candidate);
    EXPECT_LT(packed, before) << scored.candidate << ", " << scored.score;
    EXPECT_GT(packed, 0u);
    EXPECT_EQ(CandidateOf(packed), scored.candidate);
    if (std::isnan(scored.score)) {
      EXPECT_TRUE(std::isnan(ScoreOf(packed)));
    } else {
      EXPECT_EQ(BitsOf(ScoreOf(packed)), BitsOf(scored.score));
    }
    before = packed;
  }
  for (float score : Normals(1000, 3)) {
    EXPECT_EQ(BitsOf(ScoreOf(PackCandidate(score, 5))), BitsOf(score));
  }
}

TEST(CudaOrderTest, BitonicSortPutsTheGreatestFirst) {
  for (int count : {2, 64, 512}) {
    std::mt19937_64 generator(static_cast<uint64_t>(count));
    std::vector<uint64_t> numbers(count);
    for (uint64_t& number : numbers) number = generator() % 100;  // with many equal ones
    std::vector<uint64_t> sorted = numbers;
    std::sort(sorted.rbegin(), sorted.rend());
    for (int size = 2; size <= count; size *= 2) {
      for (int stride = size / 2; stride > 0; stride /= 2) {
        for (int pair = 0; pair < count / 2; ++pair) {
          BitonicExchange(numbers.data(), pair, size, stride);
        }
      }
    }
    EXPECT_EQ(numbers, sorted);
  }
}

}  // namespace
}  // namespace recollect::kernels::cuda
