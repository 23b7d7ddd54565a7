#include "model/state/block_cache.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/model_testing.h"

namespace recollect::model {
namespace {

TEST(BlockCacheTest, PositionsAreThoseOfPatternAndBlocks) {
  constexpr int64_t kBlock = 6, kLength = 150;
  const std::vector<std::vector<int64_t>> choices = {{}, {0}, {1, 2}, {0, 3, 7}};
  std::vector<LocalPattern> patterns;
  for (const int64_t window : {0, 1, 7, 200}) {
    for (const int64_t dilation : {1, 3, 6, 16, 128, -1}) {
      for (const int64_t initial : {0, 1, 5, 17}) {
        for (const int64_t span : {window, window + 19, kUnboundedSpan}) {
          patterns.push_back({window, dilation, initial, span});
        }
      }
    }
  }
  std::vector<int64_t> found;
  for (const LocalPattern& pattern : patterns) {
    SCOPED_TRACE(LocalPatterns(pattern).Text());
    const BlockCache cache({pattern}, 1, 2, {4, kBlock, BlockScore::kQuest});
    for (int64_t t = 0; t < kLength; ++t) {
      for (const std::vector<int64_t>& choice : choices) {
        if (!choice.empty() && choice.back() >= t / kBlock) continue;
        std::vector<int64_t> expected;
        for (int64_t p = 0; p <= t; ++p) {
          const auto chosen = std::find(choice.begin(), choice.end(), p / kBlock);
          const bool in_block = p / kBlock == t / kBlock || chosen != choice.end();
          if (in_block || Attends(pattern, t, p)) expected.push_back(p);
        }
        cache.Positions(0, t, choice, found);
        ASSERT_EQ(found, expected) << t;
      }
    }
  }
}

TEST(BlockCacheTest, BoundsAndMeansAreOfWholeBlocksInAnyCut) {
  constexpr int64_t kWidth = 4, kRows = 11;
  std::vector<float> keys;
  for (int64_t i = 0; i < kWidth * kRows; ++i) {
    keys.push_back(static_cast<float>(i * 37 % 101) - 50);
  }
  for (const BlockScore score : {BlockScore::kQuest, BlockScore::kMoba}) {
    for (const int64_t cut : {1, 2, 3, 11}) {
      BlockCache cache({LocalPattern{}}, 2, 2, {2, 3, score});
      for (int64_t at = 0; at < kRows; at += cut) {
        const float* rows = keys.data() + at * kWidth;
        cache.Append(rows, rows, std::min(cut, kRows - at), kWidth);
      }
      for (int64_t i = 0; i < 3 * kWidth; ++i) {
        const int64_t block = i / kWidth, channel = i % kWidth;
        float low = 1e9f, high = -1e9f, sum = 0;
        for (int64_t row = block * 3; row < block * 3 + 3; ++row) {
          const float key = keys[static_cast<size_t>(row * kWidth + channel)];
          low = std::min(low, key);
          high = std::max(high, key);
          sum += key;
        }
        const bool quest = score == BlockScore::kQuest;
        EXPECT_EQ(cache.low()[i], quest ? low : sum / 3);
        EXPECT_EQ(cache.high()[i], quest ? high : sum / 3);
      }
    }
  }
}

}  // namespace
}  // namespace recollect::model
