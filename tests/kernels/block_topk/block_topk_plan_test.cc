#include "kernels/block_topk/block_topk_plan.h"

#include <gmock/gmock.h>

#include <limits>

#include "kernels/block_topk/block_topk_kernel.h"
#include "tests/kernels/block_topk/block_topk_plan_cases.h"
#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/test_device.h"
#include "tests/kernels/range_attention/range_attention_cases.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

using block_cases::Bounds;
using block_cases::Call;
using block_cases::kPatterns;
using block_cases::Lists;
using block_cases::RandomCall;

class BlockTopKDeviceTest : public OnTestDevice {};

TEST_F(BlockTopKDeviceTest, ListsMatchReference) {
  struct Case {
    int heads, head_dim;
    int64_t block, count, blocks;
  };
  for (const Case& c : {Case{1, 1, 1, 1, 0},
                        {1, 1, 1, 3, 1},
                        {2, 7, 4, 3, 2},
                        {3, 8, 16, 1, 9},
                        {3, 8, 16, 4, 9},
                        {7, 33, 6, 5, 64},
                        {2, 64, 16, 16, 65},
                        {1, 128, 64, 4, 20},
                        {2, 100, 5, 200, 150},
                        {1, 16, 3, 257, 700}}) {
    for (const bool whole : {true, false}) {
      Call call = RandomCall(c.heads, c.head_dim, c.block, c.count, c.blocks, whole);
      for (size_t p = 0; p <= kPatterns.size(); ++p) {
        SCOPED_TRACE(absl::StrCat(c.blocks, " blocks of ", c.block, ", ", c.heads, " x ",
                                  c.head_dim, ", count ", c.count, ", pattern ", p,
                                  whole ? ", whole numbers" : ""));
        call.patterns.clear();
        for (int h = 0; h < (p < kPatterns.size() ? 1 : c.heads); ++h) {
          call.patterns.push_back(kPatterns[(p + h) % kPatterns.size()]);
        }
        const Lists lists = block_cases::Run(device(), call, p % 2);
        for (size_t i = 0; i < lists.size(); ++i) {
          const auto row = static_cast<int64_t>(i) / c.heads;
          const int head = static_cast<int>(i) % c.heads;
          EXPECT_EQ(lists[i], block_cases::Expected(call, row, head))
              << "row " << row << ", head " << head;
        }
        if (c.blocks > 100) p += 2;  // each takes a while
      }
    }
  }
}

// Rows alone, in other batches, with room for more, and cut into more parts or fewer. Scores rise
// with the block, so that lists are sorted often.
TEST_F(BlockTopKDeviceTest, SameListsInAnyBatchAndCut) {
  Call call = RandomCall(2, 24, 2, 40, 1600, false);
  call.patterns = {kPatterns[3], kPatterns[1]};
  Bounds& bounds = call.sequences[0];
  for (size_t i = 0; i < bounds.high.size(); ++i) {
    bounds.high[i] += static_cast<float>(i) / static_cast<float>(bounds.high.size());
  }
  const Lists whole = block_cases::Run(device(), call, 0, 132);
  EXPECT_EQ(block_cases::Run(device(), call, 0, 1), whole);
  EXPECT_EQ(block_cases::Run(device(), call, 0, 10, 5000), whole);
  for (const size_t step : {1, 3}) {
    for (size_t begin = 0; begin < call.rows.size(); begin += step) {
      const size_t end = std::min(begin + step, call.rows.size());
      Call part = call;
      part.rows.assign(call.rows.begin() + begin, call.rows.begin() + end);
      part.q.assign(call.q.begin() + begin * call.width(), call.q.begin() + end * call.width());
      const Lists lists = block_cases::Run(device(), part, 0, step == 1 ? 132 : 1);
      for (size_t i = 0; i < lists.size(); ++i) {
        EXPECT_EQ(lists[i], whole[begin * call.heads + i]) << "row " << begin + i / call.heads;
      }
    }
  }
}

// Scores of head_dim 1: ties, zeros of both signs, NaN and infinity.
TEST_F(BlockTopKDeviceTest, TiesAndScoresThatAreNoNumbers) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const std::vector<std::vector<float>> rows = {
      {2, 5, 5, 2, 5},
      {0, -0.0f, 0, -1},
      {-0.0f, 0, -0.0f, 0},
      {nan, kInf, -7, -kInf, 1, kInf},
      {-kInf, nan, -kInf, nan},
      {nan, -kInf, std::numeric_limits<float>::lowest()},
      {},
  };
  for (const std::vector<float>& scores : rows) {
    const auto own = static_cast<int64_t>(scores.size());
    for (int64_t count = 1; count <= own + 2; ++count) {
      Call call{.count = count, .sequences = {{scores, scores}}, .rows = {{0, own}}, .q = {1}};
      std::vector<int64_t> chosen;
      ChooseBlocks(scores, count - 1, chosen);
      std::vector<int32_t> expected(chosen.begin(), chosen.end());
      expected.push_back(static_cast<int32_t>(own));
      EXPECT_EQ(block_cases::Run(device(), call, 0)[0], expected)
          << own << " scores, count " << count;
    }
  }
}

TEST_F(BlockTopKDeviceTest, NoRows) { EXPECT_TRUE(block_cases::Run(device(), {}).empty()); }

// A missing barrier, and threads of a phase that depend on each other, would show. Lists and blocks
// that all warps write to.
TEST(BlockTopKBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  block_cases::Call call = block_cases::RandomCall(1, 12, 40, 50, 600, true);
  call.patterns = {{.window = 500, .dilation = 9, .initial = 60, .span = int64_t{1} << 40}};
  call.rows.resize(5);
  call.q.resize(call.rows.size() * call.width());
  HostDevice phases;
  const Lists expected = block_cases::Run(phases, call);
  for (HostOrder order : kHostOrders) {
    HostDevice host(order);
    EXPECT_EQ(block_cases::Run(host, call), expected) << static_cast<int>(order);
  }
}

// The whole way of a row: its lists, then range attention over its own sequence's cache.
TEST(BlockTopKBlockTest, RangeAttentionReadsTheLists) {
  const block_cases::Call call = block_cases::RandomCall(2, 24, 8, 5, 40, false);
  const int64_t width = call.width(), rows = static_cast<int64_t>(call.rows.size()), room = 56;
  size_t blocks = 0;
  for (const block_cases::Bounds& bounds : call.sequences) {
    blocks = std::max(blocks, bounds.low.size() / width);
  }
  const int64_t floats = static_cast<int64_t>(blocks + 1) * width * call.block;
  std::vector<std::vector<float>> keys, values;
  for (size_t i = 0; i < call.sequences.size(); ++i) {
    keys.push_back(Normals(floats, 21 + static_cast<uint32_t>(keys.size())));
    values.push_back(Normals(floats, 31 + static_cast<uint32_t>(keys.size())));
  }
  HostDevice host;
  const Lists lists = block_cases::Run(host, call);
  range_cases::Call attention{.heads = call.heads,
                              .kv_heads = call.heads,
                              .head_dim = call.head_dim,
                              .q = call.q,
                              .q_stride = width,
                              .parts_per_row = kMaxRanges,
                              .part_floats = floats,
                              .room = room};
  for (const block_cases::Row& row : call.rows) {
    attention.parts.push_back({keys[row.sequence].data(), values[row.sequence].data()});
    attention.parts.resize(attention.parts.size() + kMaxRanges - 1);
  }
  for (const std::vector<int32_t>& list : lists) {
    attention.counts.push_back(static_cast<int32_t>(list.size()));
    attention.entries.insert(attention.entries.end(), list.begin(), list.end());
    attention.entries.resize(attention.counts.size() * room, -1);
  }
  const std::vector<float> out = range_cases::RunOnDevice(host, attention, 0);
  for (int64_t p = 0; p < rows * call.heads; ++p) {
    const size_t sequence = call.rows[p / call.heads].sequence;
    const int64_t at = p % call.heads * call.head_dim, count = attention.counts[p];
    const range_cases::Case c{.name = "list",
                              .heads = 1,
                              .head_dim = call.head_dim,
                              .entries = count,
                              .sets = {range_cases::Set(0, count, 0, 0, 0, 0)}};
    range_cases::Inputs in(c);
    const auto query = call.QueryOf(p / call.heads, static_cast<int>(p % call.heads));
    in.q.assign(query.begin(), query.end());
    in.q_stride = call.head_dim;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t from = lists[p][i] * width + at, to = i * call.head_dim;
      std::copy_n(keys[sequence].begin() + from, call.head_dim, in.keys[0].begin() + to);
      std::copy_n(values[sequence].begin() + from, call.head_dim, in.values[0].begin() + to);
    }
    range_cases::ExpectMatchesReference(c, in,
                                        std::span(out).subspan(p * call.head_dim, call.head_dim));
  }
}

BlockTopKSizes Sizes(int64_t rows, int64_t max_position) {
  return {.rows = rows,
          .heads = 16,
          .head_dim = 128,
          .block = 64,
          .count = 16,
          .max_position = max_position,
          .max_entries = 1 << 20};
}

TEST(BlockTopKPlanTest, PartsCoverTheBlocksOnce) {
  for (int64_t position : {0, 63, 64, 65535, 65536, 262143, 1 << 30}) {
    for (int64_t rows : {0, 1, 5, 64, 4096}) {
      for (int multiprocessors : {1, 132}) {
        SCOPED_TRACE(absl::StrCat(rows, " rows at ", position));
        const auto plan = PlanBlockTopK(Sizes(rows, position), multiprocessors);
        ASSERT_TRUE(plan.ok());
        const int64_t blocks = position / 64;
        EXPECT_GE(plan->parts * plan->part_blocks, blocks);
        EXPECT_LT((plan->parts - 1) * plan->part_blocks, std::max<int64_t>(blocks, 1));
        EXPECT_EQ(plan->part_blocks % cuda::kScoreStep, 0);
        EXPECT_EQ(plan->row_tiles, (rows + 3) / 4);
        EXPECT_LE(plan->parts, 65535);
        EXPECT_EQ(plan->workspace_bytes, rows * 16 * plan->parts * 15 * 8);
      }
    }
  }
  BlockTopKSizes alone = Sizes(1, 262143);
  alone.count = 1;
  EXPECT_EQ(PlanBlockTopK(alone, 132)->parts, 0) << "nothing to rank";
}

TEST(BlockTopKPlanTest, RefusesWhatItCannotRun) {
  constexpr int64_t kTooMany = (int64_t{1} << 30) + 1;
  const auto message = [](auto change) {
    BlockTopKSizes sizes = Sizes(1, 100);
    change(sizes);
    const absl::Status status = PlanBlockTopK(sizes, 132).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message([](auto& s) { s.rows = -1; }), HasSubstr("-1 rows, expected 0 to"));
  EXPECT_THAT(message([](auto& s) { s.rows = kTooMany; }), HasSubstr("1073741825 rows"));
  EXPECT_THAT(message([](auto& s) { s.heads = 0; }), HasSubstr("0 heads, expected 1 to 65535"));
  EXPECT_THAT(message([](auto& s) { s.heads = 65536; }), HasSubstr("65536 heads"));
  EXPECT_THAT(message([](auto& s) { s.head_dim = 129; }),
              HasSubstr("head_dim 129, expected 1 to 128"));
  EXPECT_THAT(message([](auto& s) { s.block = 0; }), HasSubstr("blocks of 0 positions"));
  EXPECT_THAT(message([](auto& s) { s.count = 0; }), HasSubstr("count 0, expected 1 to 257"));
  EXPECT_THAT(message([](auto& s) { s.count = 258; }), HasSubstr("count 258, expected 1 to 257"));
  EXPECT_THAT(message([](auto& s) { s.max_position = -1; }), HasSubstr("position -1"));
  EXPECT_THAT(message([](auto& s) { s.max_position = kTooMany; }), HasSubstr("1073741825"));
  EXPECT_THAT(message([](auto& s) { s.max_entries = -5; }), HasSubstr("-5 entries"));
}

TEST(BlockTopKPlanTest, ChecksRowsAndPatternsAgainstThePlan) {
  BlockTopKSizes sizes = Sizes(2, 1000);
  sizes.max_entries = 950;
  const auto plan = PlanBlockTopK(sizes, 132);
  const float numbers[1] = {};
  const BlockTopKRow good{numbers, numbers, 900}, first{nullptr, nullptr, 63};
  const std::vector<BlockPattern> one(1);
  EXPECT_EQ(CheckBlockTopK(*plan, std::vector{good, first}, one), absl::OkStatus());
  const auto message = [&](const std::vector<BlockTopKRow>& rows,
                           const std::vector<BlockPattern>& patterns) {
    const absl::Status status = CheckBlockTopK(*plan, rows, patterns);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({good}, one), HasSubstr("1 rows, planned for 2"));
  EXPECT_THAT(message({good, first}, {}), HasSubstr("0 patterns, expected 1 or 16"));
  EXPECT_THAT(message({good, first}, {BlockPattern{}, {.window = -2}}), HasSubstr("2 patterns"));
  EXPECT_THAT(message({good, first}, {{.window = -2}}), HasSubstr("pattern 0: window -2"));
  EXPECT_THAT(message({good, {numbers, numbers, -1}}, one), HasSubstr("row 1: position -1"));
  EXPECT_THAT(message({{numbers, numbers, 1001}, good}, one),
              HasSubstr("row 0: position 1001, planned up to 1000"));
  EXPECT_THAT(message({good, {numbers, nullptr, 64}}, one), HasSubstr("row 1: no bounds"));
  EXPECT_THAT(message({good, {numbers, numbers, 999}}, one),
              HasSubstr("row 1: up to 1000 entries, planned for 950"));
}

}  // namespace
}  // namespace recollect::kernels
