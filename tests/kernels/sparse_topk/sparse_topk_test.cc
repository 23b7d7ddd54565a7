#include "kernels/sparse_topk/sparse_topk.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "kernels/sparse_topk/sparse_range.h"
#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Best = std::vector<ScoredCandidate>;
using Query = std::vector<SparseTerm>;

// The rows of the blocks of one range.
struct Rows {
  explicit Rows(int32_t of) : word_count(of) {}
  std::vector<int32_t> words;
  std::vector<uint8_t> weights;
  std::vector<int64_t> block_rows;
  std::vector<float> scales;
  int32_t word_count;

  void Add(const std::vector<int32_t>& block) {
    words.insert(words.end(), block.begin(), block.end());
    block_rows.push_back(std::ssize(block));
  }
  SparseRange range() const {
    return SparseRange::Make({words, weights, block_rows, scales, word_count});
  }
};

// Words as texts have them: low numbers in most blocks, high ones in few.
Rows RandomRows(int64_t blocks, bool weighted, uint32_t seed) {
  std::mt19937 random(seed);
  Rows rows(700);
  for (int64_t block = 0; block < blocks; ++block) {
    std::vector<int32_t> words(random() % 64);
    for (int32_t& word : words) {
      const double share = static_cast<double>(random() % 100000) / 100000;
      word = static_cast<int32_t>(699 * share * share * share);
    }
    rows.Add(words);
    if (weighted) rows.scales.push_back(0.25f + static_cast<float>(random() % 1000) / 300);
  }
  if (!weighted) return rows;
  for (size_t i = 0; i < rows.words.size(); ++i) {
    rows.weights.push_back(static_cast<uint8_t>(random() % 256));
  }
  return rows;
}

Query RandomQuery(size_t terms, uint32_t seed) {
  std::mt19937 random(seed);
  Query query(terms);
  for (SparseTerm& term : query) {
    term = {static_cast<int32_t>(random() % 720), static_cast<float>(random() % 1000) / 77};
  }
  return query;
}

// The formula of the header, block by block and row by row.
Best AllScores(const std::vector<Rows>& all, const Query& query) {
  std::map<int32_t, double> weights;
  for (const SparseTerm& term : query) weights[term.word] += static_cast<double>(term.weight);
  double most = 0;
  for (const auto& [word, weight] : weights) most = std::max(most, weight);
  Best best;
  int64_t candidate = 0;
  for (const Rows& rows : all) {
    size_t row = 0;
    for (size_t block = 0; block < rows.block_rows.size(); ++block, ++candidate) {
      uint64_t sum = 0;
      for (int64_t i = 0; i < rows.block_rows[block]; ++i, ++row) {
        const auto found = weights.find(rows.words[row]);
        if (found == weights.end() || most == 0) continue;
        sum += static_cast<uint64_t>(std::round(found->second / most * 262143)) *
               (rows.weights.empty() ? 1 : rows.weights[row]);
      }
      const float scale = rows.scales.empty() ? 1.0f : rows.scales[block];
      const float score = static_cast<float>(sum) * scale * static_cast<float>(most / 262143);
      if (score > 0) best.push_back({candidate, score});
    }
  }
  std::sort(best.begin(), best.end(), [](const ScoredCandidate& a, const ScoredCandidate& b) {
    return a.score != b.score ? a.score > b.score : a.candidate < b.candidate;
  });
  return best;
}

class SparseTopKTest : public ::testing::TestWithParam<Isa> {
 protected:
  std::vector<Best> TopOf(const std::vector<Rows>& all, const std::vector<Query>& queries, int n) {
    std::vector<SparseRange> ranges;
    for (const Rows& rows : all) ranges.push_back(rows.range());
    std::vector<const SparseRange*> pointers;
    for (const SparseRange& range : ranges) pointers.push_back(&range);
    return SparseTopK(ctx_, queries, pointers, n);
  }
  Best TopOf(const Rows& rows, const Query& query, int n) {
    return TopOf(std::vector<Rows>{rows}, {query}, n)[0];
  }

  OpContext ctx_{GetParam()};
};

TEST_P(SparseTopKTest, AgreesWithSortingAllScores) {
  for (const bool weighted : {false, true}) {
    std::vector<Rows> all;
    for (const int64_t blocks : {1, 0, 700, 33, 1500, 5}) {
      all.push_back(RandomRows(blocks, weighted, static_cast<uint32_t>(blocks)));
    }
    std::vector<Query> queries;
    for (const size_t terms : {0, 1, 5, 20, 63, 200}) {
      queries.push_back(RandomQuery(terms, static_cast<uint32_t>(terms)));
    }
    for (const int n : {0, 1, 8, 500, 5000}) {
      const std::vector<Best> found = TopOf(all, queries, n);
      ASSERT_EQ(found.size(), queries.size());
      for (size_t q = 0; q < queries.size(); ++q) {
        Best expected = AllScores(all, queries[q]);
        expected.resize(std::min(expected.size(), static_cast<size_t>(n)));
        EXPECT_EQ(found[q], expected) << "query " << q << ", n " << n << ", weighted " << weighted;
      }
    }
  }
}

TEST_P(SparseTopKTest, ABlockHasTheSameScoreInAnyOrderOfRanges) {
  std::vector<Rows> all;
  for (uint32_t i = 0; i < 4; ++i) all.push_back(RandomRows(100 + 50 * i, true, i));
  const Query query = RandomQuery(20, 1);
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::map<std::pair<size_t, int64_t>, float> scores;  // by range and block in it
  do {
    std::vector<Rows> permuted;
    for (const size_t i : order) permuted.push_back(all[i]);
    const std::vector<Best> found = TopOf(permuted, {query}, 10000);
    std::map<std::pair<size_t, int64_t>, float> these;
    for (const ScoredCandidate& best : found[0]) {
      int64_t block = best.candidate;
      size_t i = 0;
      while (block >= std::ssize(permuted[i].block_rows)) {
        block -= std::ssize(permuted[i++].block_rows);
      }
      these[{order[i], block}] = best.score;
    }
    if (scores.empty()) scores = these;
    ASSERT_FALSE(these.empty());
    EXPECT_EQ(these, scores);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(SparseTopKTest, BlocksWithoutACommonWordAreNoHits) {
  Rows rows(10);
  rows.Add({1, 2, 2});
  rows.Add({});
  rows.Add({3});
  rows.Add({2});
  EXPECT_THAT(TopOf(rows, {{2, 1.0f}}, 8),
              ElementsAre(ScoredCandidate{0, 2}, ScoredCandidate{3, 1}));
  EXPECT_THAT(TopOf(rows, {{9, 1.0f}}, 8), IsEmpty());
  EXPECT_THAT(TopOf(rows, {{12345, 1.0f}}, 8), IsEmpty());
  EXPECT_THAT(TopOf(rows, {{2, 0.0f}}, 8), IsEmpty());
  EXPECT_THAT(TopOf(rows, {}, 8), IsEmpty());
  rows.weights = {1, 0, 0, 1, 1};
  EXPECT_THAT(TopOf(rows, {{2, 1.0f}}, 8), ElementsAre(ScoredCandidate{3, 1}));
}

TEST_P(SparseTopKTest, TiesGoToTheEarlierCandidate) {
  Rows rows(3);
  for (const int32_t word : {1, 2, 1, 1, 2}) rows.Add({word});
  const Query query = {{1, 2.0f}, {2, 3.0f}};
  std::vector<int64_t> order;
  for (const Best& best : TopOf(std::vector<Rows>{rows, rows}, {query}, 7)) {
    for (const ScoredCandidate& one : best) order.push_back(one.candidate);
  }
  EXPECT_THAT(order, ElementsAre(1, 4, 6, 9, 0, 2, 3));
}

// 64 rows of one word with the greatest weight: several entries, and the greatest sum that there
// is.
TEST_P(SparseTopKTest, LargeSumsAreExact) {
  Rows rows(2);
  rows.Add(std::vector<int32_t>(64, 1));
  rows.Add({1});
  rows.weights = std::vector<uint8_t>(65, 255);
  const Best best = TopOf(rows, {{1, 262143.0f}}, 2);
  EXPECT_THAT(best, ElementsAre(ScoredCandidate{0, 64.0f * 255 * 262143},
                                ScoredCandidate{1, 255.0f * 262143}));
}

INSTANTIATE_TEST_SUITE_P(Isas, SparseTopKTest, ::testing::ValuesIn(RunnableIsas()),
                         [](const auto& isa) { return IsaName(isa.param); });

// The weight of a word in each block.
std::vector<int> WeightsOf(const SparseRange& range, int32_t word) {
  std::vector<int> weights(static_cast<size_t>(range.blocks()));
  const SparseList list = range.list(word);
  for (int64_t i = 0; i < list.count; ++i) {
    const auto block = static_cast<size_t>(list.blocks == nullptr ? i : list.blocks[i]);
    weights[block] += list.weights[i];
  }
  return weights;
}

std::vector<int> NearWeights(const Rows& rows, int32_t word, int64_t before, int64_t after,
                             std::span<const uint8_t> weights) {
  const std::vector<int> own = WeightsOf(rows.range(), word);
  std::vector<int> near;
  for (int64_t block = before; block < std::ssize(own) - after; ++block) {
    int64_t away = std::ssize(weights);
    for (int64_t there = 0; there < std::ssize(own); ++there) {
      if (own[static_cast<size_t>(there)] > 0) away = std::min(away, std::abs(there - block));
    }
    near.push_back(away < std::ssize(weights) ? weights[static_cast<size_t>(away)] : 0);
  }
  return near;
}

TEST(SparseRangeTest, FrequentWordsAreKeptForAllBlocks) {
  Rows rows(5);
  for (int block = 0; block < 30; ++block) {
    rows.Add(block % 10 == 0 ? std::vector<int32_t>{1, 3, 1} : std::vector<int32_t>{1});
  }
  const SparseRange range = rows.range();
  const SparseList everywhere = range.list(1), some = range.list(3);
  EXPECT_EQ(everywhere.blocks, nullptr);
  ASSERT_EQ(everywhere.count, 30);
  EXPECT_EQ(everywhere.weights[0], 2);
  EXPECT_EQ(everywhere.weights[1], 1);
  ASSERT_EQ(some.count, 3);
  EXPECT_THAT(std::vector<uint16_t>(some.blocks, some.blocks + 3), ElementsAre(0, 10, 20));
  EXPECT_EQ(range.list(0).count, 0);
}

// By hand: of each block the nearest block that has each word.
TEST(SparseRangeTest, SpreadGivesBlocksTheWordsOfTheirNeighbours) {
  const std::vector<uint8_t> weights = {90, 60, 40, 10};
  for (const auto& [blocks, before, after, reach] : {std::array<int64_t, 4>{60, 0, 0, 3},
                                                     {200, 7, 2, 2},
                                                     {5, 2, 1, 3},
                                                     {3, 3, 0, 3},
                                                     {40, 1, 1, 0}}) {
    const Rows rows = RandomRows(blocks, true, static_cast<uint32_t>(blocks));
    const std::span<const uint8_t> some = std::span(weights).first(static_cast<size_t>(reach) + 1);
    const SparseRange range = rows.range().Spread(before, after, some);
    ASSERT_EQ(range.blocks(), blocks - before - after);
    for (int32_t word = 0; word < rows.word_count; ++word) {
      EXPECT_EQ(WeightsOf(range, word), NearWeights(rows, word, before, after, some)) << word;
    }
  }
}

TEST(SparseRangeTest, MemoryIsAtMostWhatIsSaidBefore) {
  for (const bool weighted : {false, true}) {
    for (const int64_t blocks : {0, 1, 50, 3000}) {
      const Rows rows = RandomRows(blocks, weighted, 7);
      const SparseRange range = rows.range();
      EXPECT_EQ(range.blocks(), blocks);
      EXPECT_LE(range.bytes(), SparseRange::MaxBytes(std::ssize(rows.words), blocks, 700));
      EXPECT_GE(range.bytes(), std::ssize(rows.words) / 4);
    }
  }
}

}  // namespace
}  // namespace recollect::kernels
