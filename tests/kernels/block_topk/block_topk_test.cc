#include "kernels/block_topk/block_topk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

using namespace recollect::testing;  // factors

TEST(BlockScoresTest, MatchesReference) {
  for (const Isa isa : RunnableIsas()) {
    OpContext ctx(isa);
    for (int64_t width : {1, 7, 16, 33, 64, 128}) {
      for (int64_t blocks : {0, 1, 5}) {
        SCOPED_TRACE(absl::StrCat(IsaName(isa), " ", blocks, " of ", width));
        const int64_t stride = width + 3;
        const std::vector<float> a = Normals(blocks * stride, 1), b = Normals(blocks * stride, 2);
        Guarded q(Normals(width, 3)), low(blocks * stride), high(blocks * stride);
        for (int64_t i = 0; i < blocks * stride; ++i) {
          low.data()[i] = std::min(a[i], b[i]);
          high.data()[i] = std::max(a[i], b[i]);
        }
        Guarded scores(blocks), expected(blocks);
        BlockScores(ctx, q.data(), width, low.data(), high.data(), stride, blocks, scores.data());
        BlockScores(Scalar(), q.data(), width, low.data(), high.data(), stride, blocks,
                    expected.data());
        for (int64_t block = 0; block < blocks; ++block) {
          double magnitude = 0;
          for (int64_t i = 0; i < width; ++i) {
            const int64_t at = block * stride + i;
            magnitude += std::max(std::abs(q[i] * low[at]), std::abs(q[i] * high[at]));
          }
          EXPECT_CLOSE(scores[block], expected[block], magnitude, kBlockScoreFactor);
        }
      }
    }
  }
}

// Any key of a block scores at most what its bounds do.
TEST(BlockScoresTest, BoundsAreBounds) {
  OpContext ctx;
  const int64_t width = 20, rows = 8;
  const std::vector<float> keys = Normals(rows * width, 4), q = Normals(width, 5);
  std::vector<float> low(keys.begin(), keys.begin() + width), high = low;
  for (int64_t i = 0; i < rows * width; ++i) {
    low[i % width] = std::min(low[i % width], keys[i]);
    high[i % width] = std::max(high[i % width], keys[i]);
  }
  float bound = 0;
  BlockScores(ctx, q.data(), width, low.data(), high.data(), width, 1, &bound);
  std::vector<float> scores(rows);
  BlockScores(ctx, q.data(), width, keys.data(), keys.data(), width, rows, scores.data());
  for (const float score : scores) EXPECT_LE(score, bound);
}

TEST(ChooseBlocksTest, BestFirstTiesToTheLowerIndexAscending) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores = {1, 5, 2, 5, 2, kNan, 5};
  std::vector<int64_t> chosen;
  const auto choose = [&](int64_t count) {
    ChooseBlocks(scores, count, chosen);
    return chosen;
  };
  using List = std::vector<int64_t>;
  EXPECT_EQ(choose(0), List());
  EXPECT_EQ(choose(2), (List{1, 3}));
  EXPECT_EQ(choose(4), (List{1, 2, 3, 6}));
  EXPECT_EQ(choose(6), (List{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(choose(9), (List{0, 1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace recollect::kernels
