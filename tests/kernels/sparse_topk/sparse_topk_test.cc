#include "kernels/sparse_topk/sparse_topk.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "kernels/sparse_topk/sparse_range.h"
#include "tests/kernels/device/op_test.h"
#include "tests/kernels/sparse_topk/sparse_topk_cases.h"

namespace recollect::kernels {
namespace {

using sparse_cases::Best;
using sparse_cases::Call;
using sparse_cases::Query;
using sparse_cases::RandomQuery;
using sparse_cases::RandomRows;
using sparse_cases::Rows;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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

std::vector<const SparseRange*> Pointers(const std::vector<SparseRange>& ranges) {
  std::vector<const SparseRange*> pointers;
  for (const SparseRange& range : ranges) pointers.push_back(&range);
  return pointers;
}

class SparseTopKTest : public OpTest<Call> {
 protected:
  std::vector<Best> TopOf(const std::vector<Rows>& all, const std::vector<Query>& queries, int n) {
    std::vector<SparseRange> ranges;
    for (const Rows& rows : all) ranges.push_back(rows.range());
    return RunInAllWays({Pointers(ranges), queries, n});
  }
  Best TopOf(const Rows& rows, const Query& query, int n) {
    return TopOf(std::vector<Rows>{rows}, {query}, n)[0];
  }
};
class SparseTopKDeviceTest : public SparseTopKTest {};

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

// The blocks of 16 million tokens, from which a hit is asked that the last slice has, and many that
// are equal: every range is there several times.
TEST_P(SparseTopKDeviceTest, HasTheHitsOfTheCpuAmongTheBlocksOf16MillionTokens) {
  constexpr int64_t kBlocks = 290000;
  std::vector<SparseRange> different;
  for (uint32_t i = 0; i < 3; ++i) {
    different.push_back(RandomRows(SparseRange::kMaxBlocks, i == 1, i).range());
  }
  Rows last = RandomRows(kBlocks % SparseRange::kMaxBlocks - 1, false, 9);
  last.word_count = 701;
  last.Add({700});
  different.push_back(last.range());
  Call call{{}, {RandomQuery(5, 1), RandomQuery(63, 2), {{700, 1.0f}}}, 64};
  for (size_t i = 0; i < kBlocks / SparseRange::kMaxBlocks; ++i) {
    call.ranges.push_back(&different[i % 3]);
  }
  call.ranges.push_back(&different[3]);
  ASSERT_EQ(call.candidates(), kBlocks);
  OpContext cpu;
  const std::vector<Best> expected = RunOnCpu(cpu, call);
  EXPECT_THAT(expected[2], ElementsAre(ScoredCandidate{kBlocks - 1, 1}));
  EXPECT_EQ(RunOnDevice(*device_, call, 0), expected);
}

// Slices that are whole, end in the middle or have one block; more words than a tile; ties at the
// end of a pass.
TEST_P(SparseTopKDeviceTest, HasTheHitsOfTheCpuAtTheEdgesOfSlices) {
  for (const int64_t blocks :
       {kSliceBlocks - 1, kSliceBlocks, kSliceBlocks + 1, 3 * kSliceBlocks}) {
    const SparseRange range = RandomRows(blocks, false, 3).range();
    const Call call{
        {&range, &range}, {RandomQuery(129, 1), RandomQuery(400, 2), RandomQuery(1, 8)}, 600};
    OpContext cpu;
    EXPECT_EQ(RunInAllWays(call), RunOnCpu(cpu, call)) << blocks;
  }
}

TEST_P(SparseTopKDeviceTest, ADensePartIsAddedToTheScoreOfEveryBlock) {
  constexpr int kWidth = 20;
  std::vector<SparseRange> ranges;
  for (const int64_t blocks : {300, 1, 2100}) {
    ranges.push_back(RandomRows(blocks, true, static_cast<uint32_t>(blocks)).range());
  }
  Call call{Pointers(ranges), {RandomQuery(20, 1), RandomQuery(0, 2)}, 2500};
  call.width = kWidth;
  call.dense = Normals(2 * kWidth, 5);
  for (const SparseRange& range : ranges) {
    call.dense_keys.push_back(NormalBf16(range.blocks() * kWidth, 6));
  }
  const std::vector<Best> found = RunInAllWays(call);
  OpContext scalar(Isa::kScalar);
  for (size_t q = 0; q < found.size(); ++q) {
    ASSERT_EQ(std::ssize(found[q]), call.candidates());
    std::vector<float> expected;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const int64_t blocks = ranges[i].blocks();
      std::vector<float> dense(static_cast<size_t>(blocks)), sparse(dense.size());
      LandmarkScores(scalar, call.dense.data() + q * kWidth, kWidth, call.dense_keys[i].data(),
                     blocks, dense.data());
      SparseScoresOf(scalar, call.queries[q], ranges[i], sparse.data());
      for (size_t block = 0; block < dense.size(); ++block) {
        expected.push_back(dense[block] + sparse[block]);
      }
    }
    for (size_t i = 0; i < found[q].size(); ++i) {
      const float wanted = expected[static_cast<size_t>(found[q][i].candidate)];
      EXPECT_CLOSE(found[q][i].score, wanted, 10 + std::abs(wanted), testing::kLandmarkFactor);
      if (i > 0) {
        EXPECT_LE(found[q][i].score, found[q][i - 1].score);
      }
    }
  }
}

TEST_P(SparseTopKDeviceTest, NothingToSearchGivesNothing) {
  const SparseRange empty = Rows(5).range();
  for (const std::vector<const SparseRange*>& ranges :
       {std::vector<const SparseRange*>{}, std::vector<const SparseRange*>{&empty, &empty}}) {
    EXPECT_THAT(RunInAllWays({ranges, {{{1, 1.0f}}, {}}, 8}), ElementsAre(IsEmpty(), IsEmpty()));
  }
  EXPECT_THAT(RunInAllWays({{&empty}, {}, 8}), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Runners, SparseTopKTest, ::testing::ValuesIn(Runners()), NameOfRunner);
INSTANTIATE_TEST_SUITE_P(Runners, SparseTopKDeviceTest, ::testing::Values(Runner()), NameOfRunner);

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

TEST(SparseRangeTest, PacksIntoOneArrayThatHasAllOfIt) {
  for (const bool weighted : {false, true}) {
    for (const int64_t blocks : {0, 1, 50, 3000}) {
      const Rows rows = RandomRows(blocks, weighted, 7);
      const SparseRange range = rows.range();
      const std::vector<std::byte> packed = range.Pack();
      EXPECT_LE(std::ssize(packed), range.bytes());
      const SparseLists lists = range.PackedAt(packed.data());
      ASSERT_EQ(lists.blocks, blocks);
      EXPECT_EQ(lists.scales != nullptr, weighted && blocks > 0);
      for (int32_t i = 0; i < lists.word_count; ++i) {
        const SparseList list = range.list(lists.words[i]);
        const uint32_t begin = lists.begins[i];
        ASSERT_EQ(list.count, lists.begins[i + 1] - begin);
        EXPECT_TRUE(std::equal(list.blocks, list.blocks + list.count, lists.entries + begin));
        EXPECT_TRUE(std::equal(list.weights, list.weights + list.count, lists.weights + begin));
      }
      for (int32_t i = 0; i < lists.everywhere_count; ++i) {
        const SparseList list = range.list(lists.everywhere[i]);
        EXPECT_TRUE(
            std::equal(list.weights, list.weights + blocks, lists.all_weights + i * blocks));
      }
      if (lists.scales == nullptr) continue;
      EXPECT_TRUE(std::equal(lists.scales, lists.scales + blocks, range.scales().begin()));
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
