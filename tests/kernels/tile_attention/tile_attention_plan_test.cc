#include "kernels/tile_attention/tile_attention_plan.h"

#include <gmock/gmock.h>

#include "kernels/tile_attention/tile_attention_kernel.h"
#include "tests/kernels/device/host_device.h"
#include "tests/kernels/device/test_device.h"
#include "tests/kernels/tile_attention/tile_attention_plan_cases.h"

namespace recollect::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tile_cases::Set;
using Strategy = TileAttentionPlan::Strategy;

class TileAttentionDeviceTest : public OnTestDevice {};

TEST_F(TileAttentionDeviceTest, MatchesReferenceBothWays) {
  for (const tile_cases::Case& c : tile_cases::Cases()) {
    const tile_cases::Inputs in = tile_cases::InputsOf(c);
    const tile_cases::Call call = tile_cases::CallOf(c, in, 0, in.rows);
    std::vector<float> other;
    for (Strategy strategy : tile_cases::kStrategies) {
      SCOPED_TRACE(absl::StrCat(tile_cases::NameOf(strategy), ", ", c.name));
      const std::vector<float> out = tile_cases::Run(device(), c, call, strategy);
      tile_cases::ExpectMatchesReference(c, in, out);
      if (!other.empty()) {
        EXPECT_TRUE(SameBits(out, other)) << "than the other way";
      }
      other = out;
    }
  }
}

// Rows cut into calls and tiles, with room for longer rows beside them, and each row with a cache
// of its own.
TEST_F(TileAttentionDeviceTest, ARowHasTheSameBitsInAnyBatch) {
  for (const tile_cases::Case& c : tile_cases::Cases()) {
    const tile_cases::Inputs in = tile_cases::InputsOf(c);
    const tile_cases::Call call = tile_cases::CallOf(c, in, 0, in.rows);
    const std::vector<float> whole = tile_cases::Run(device(), c, call, Strategy::kByTile);
    for (int64_t step : {1, 33}) {
      SCOPED_TRACE(absl::StrCat(c.name, ", step ", step));
      std::vector<float> out;
      for (int64_t r = 0; r < in.rows; r += step) {
        const std::vector<float> some =
            tile_cases::Run(device(), c, tile_cases::CallOf(c, in, r, std::min(r + step, in.rows)),
                            r / step % 2 == 0 ? Strategy::kBySplit : Strategy::kByTile, 3);
        out.insert(out.end(), some.begin(), some.end());
      }
      EXPECT_TRUE(SameBits(out, whole));
    }
    if (MostTileRows(c.heads, c.kv_heads()) > 5) {
      EXPECT_TRUE(SameBits(tile_cases::Run(device(), c, call, Strategy::kBySplit, 0, 5), whole))
          << c.name;
    }
    SCOPED_TRACE(absl::StrCat(c.name, ", a cache for each row"));
    tile_cases::Call own = call;
    own.memory.clear();
    own.runs.clear();
    for (int64_t r = 0; r < std::min<int64_t>(in.rows, 9); ++r) {
      tile_cases::Call::Run& of = own.runs.emplace_back(call.runs[0]);
      of.rows = r < 8 ? 1 : in.rows - r;
      for (int p = 0; p < kMaxRanges; ++p) {
        of.keys[p] += own.memory.size();
        of.values[p] += own.memory.size();
      }
      own.memory.insert(own.memory.end(), call.memory.begin(), call.memory.end());
    }
    EXPECT_TRUE(SameBits(tile_cases::Run(device(), c, own, Strategy::kBySplit), whole));
  }
}

// Entries moved by multiples of a split, apart from each other and at any address, and NaN wherever
// no row of the call has an entry.
TEST_F(TileAttentionDeviceTest, OnlyIndicesWithinASplitMatter) {
  for (const tile_cases::Case& c : tile_cases::Cases()) {
    const tile_cases::Inputs in = tile_cases::InputsOf(c);
    const std::vector<float> whole =
        tile_cases::Run(device(), c, tile_cases::CallOf(c, in, 0, in.rows), Strategy::kByTile);
    for (Strategy strategy : tile_cases::kStrategies) {
      SCOPED_TRACE(absl::StrCat(tile_cases::NameOf(strategy), ", ", c.name));
      const tile_cases::Layout moved{.before = {512, 0, 256}, .between = 8};
      EXPECT_TRUE(SameBits(
          tile_cases::Run(device(), c, tile_cases::CallOf(c, in, 0, in.rows, moved), strategy),
          whole));
      const tile_cases::Layout odd{.before = {0, 256, 768}, .between = 5};
      EXPECT_TRUE(SameBits(
          tile_cases::Run(device(), c, tile_cases::CallOf(c, in, 0, in.rows, odd), strategy),
          whole));
      for (int64_t r = 0; r < in.rows; r += 11) {
        const tile_cases::Layout reached{.before = {256, 256, 0}, .only_reached = true};
        EXPECT_TRUE(SameBits(
            tile_cases::Run(device(), c, tile_cases::CallOf(c, in, r, r + 1, reached), strategy),
            std::span(whole).subspan(r * in.width, in.width)))
            << "row " << r;
      }
    }
  }
}

TEST_F(TileAttentionDeviceTest, AddressesDoNotMatter) {
  for (const tile_cases::Case& c : tile_cases::Cases()) {
    const tile_cases::Call call =
        tile_cases::CallOf(c, tile_cases::InputsOf(c), 0, std::ssize(c.sets));
    for (Strategy strategy : tile_cases::kStrategies) {
      EXPECT_TRUE(SameBits(tile_cases::Run(device(), c, call, strategy, 0, 0, 1),
                           tile_cases::Run(device(), c, call, strategy)))
          << tile_cases::NameOf(strategy) << ", " << c.name;
    }
  }
}

// A missing barrier, and threads of a phase that depend on each other, would show.
TEST(TileAttentionBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  for (const tile_cases::Case& c : tile_cases::Cases()) {
    const tile_cases::Inputs in = tile_cases::InputsOf(c);
    const tile_cases::Call call = tile_cases::CallOf(c, in, 0, std::min<int64_t>(in.rows, 40));
    for (Strategy strategy : tile_cases::kStrategies) {
      HostDevice phases;
      const auto expected = tile_cases::Run(phases, c, call, strategy);
      for (HostOrder order : kHostOrders) {
        HostDevice host(order);
        EXPECT_TRUE(SameBits(tile_cases::Run(host, c, call, strategy), expected))
            << tile_cases::NameOf(strategy) << ", " << c.name << ", " << static_cast<int>(order);
      }
    }
  }
}

TEST_F(TileAttentionDeviceTest, LargeScoresDoNotOverflow) {
  const tile_cases::Case c{"large", 1, 64, 3, {Set(0, 0, 0, 0, 0, 3)}};
  tile_cases::Inputs in(c);
  std::fill(in.q.begin(), in.q.end(), 100.0f);
  std::fill(in.keys[2].begin(), in.keys[2].end(), 100.0f);
  std::fill(in.keys[2].begin(), in.keys[2].begin() + 64, -100.0f);
  std::fill(in.values[2].begin(), in.values[2].end(), 1.0f);
  for (Strategy strategy : tile_cases::kStrategies) {
    for (const float number :
         tile_cases::Run(device(), c, tile_cases::CallOf(c, in, 0, 1), strategy)) {
      EXPECT_NEAR(number, 1.0f, 0x1p-8);
    }
  }
}

TEST(TileAttentionPlanTest, FewTilesGoBySplit) {
  const auto strategy = [](int64_t tiles, int64_t rows, int64_t splits) {
    return PlanTileAttention({.rows = tiles * rows,
                              .tiles = tiles,
                              .heads = 32,
                              .kv_heads = 32,
                              .head_dim = 64,
                              .max_tile_rows = rows,
                              .max_splits = splits},
                             132)
        ->strategy;
  };
  EXPECT_EQ(strategy(1, 1, 64), Strategy::kBySplit);
  EXPECT_EQ(strategy(1, 1, 1), Strategy::kByTile);  // nothing to join
  EXPECT_EQ(strategy(512, 1, 64), Strategy::kByTile);
  EXPECT_EQ(strategy(4, 64, 64), Strategy::kBySplit);
  EXPECT_EQ(strategy(16, 64, 4), Strategy::kBySplit);
  EXPECT_EQ(strategy(16, 64, 64), Strategy::kByTile);  // half a gigabyte of workspace
  EXPECT_EQ(strategy(4096, 64, 64), Strategy::kByTile);
}

TEST(TileAttentionPlanTest, SizesAreThoseOfTheLayouts) {
  const TileAttentionSizes sizes = {.rows = 3,
                                    .tiles = 2,
                                    .heads = 6,
                                    .kv_heads = 2,
                                    .head_dim = 16,
                                    .max_tile_rows = 2,
                                    .max_splits = 5};
  const TileAttentionPlan plan = *PlanTileAttention(sizes, Strategy::kBySplit);
  EXPECT_EQ(plan.workspace_bytes, 3 * 6 * 5 * (2 + 16) * 4);
  EXPECT_EQ(plan.warps, 1);  // six queries
  EXPECT_FLOAT_EQ(plan.scale, 0.25f);
  EXPECT_FLOAT_EQ(plan.power_scale, 0.36067376f);
  EXPECT_EQ(PlanTileAttention(sizes, Strategy::kByTile)->workspace_bytes, 0);
  EXPECT_EQ(MostTileRows(6, 2), 21);
  EXPECT_EQ(MostTileRows(64, 1), 1);
}

TEST(TileAttentionPlanTest, TilesAreNeighbouringRowsOfOneCache) {
  const Bf16 numbers[2] = {};
  const std::vector<CacheRows> runs = {{.rows = 3, .parts = {{{numbers, numbers}}}},
                                       {.rows = 0},
                                       {.rows = 1, .parts = {{{numbers + 1, numbers}}}}};
  // The second row has nothing in the first part, the last in none.
  const std::vector<RangeSet> sets = {Set(3, 5, 0, 0, 10, 20), Set(9, 9, 7, 8, 11, 21),
                                      Set(1, 4, 0, 0, 12, 22), Set(5, 5, 3, 2, 0, 0)};
  const std::vector<RowTile> tiles = RowTilesOf(runs, sets, 2);
  ASSERT_EQ(tiles.size(), 3u);
  const auto reach = [&](size_t tile) {
    std::vector<int64_t> bounds;
    for (const RangeSet::Range& range : tiles[tile].reach.ranges) {
      bounds.push_back(range.begin);
      bounds.push_back(range.end);
    }
    return bounds;
  };
  EXPECT_EQ(tiles[0].first_row, 0);
  EXPECT_EQ(tiles[0].rows, 2);
  EXPECT_THAT(reach(0), ElementsAre(3, 5, 7, 8, 10, 21));
  EXPECT_EQ(tiles[1].first_row, 2);
  EXPECT_EQ(tiles[1].rows, 1);
  EXPECT_THAT(reach(1), ElementsAre(1, 4, 0, 0, 12, 22));
  EXPECT_EQ(tiles[1].parts[0].keys, numbers);
  EXPECT_EQ(tiles[2].first_row, 3);
  EXPECT_THAT(reach(2), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_EQ(tiles[2].parts[0].keys, numbers + 1);
  const TileAttentionSizes sizes = SizesOf({.rows = 4}, tiles);
  EXPECT_EQ(sizes.tiles, 3);
  EXPECT_EQ(sizes.max_tile_rows, 2);
  EXPECT_EQ(sizes.max_splits, 3);
}

TEST(TileAttentionPlanTest, KeyTilesAndSplitsBeginAtTheirMultiples) {
  const RangeSet reach = Set(250, 260, 9, 9, 700, 1100);
  EXPECT_EQ(SplitsOf(reach), 2 + 0 + 3);
  std::vector<std::pair<int, int64_t>> walked, split_begins;
  for (cuda::KeyTile at = cuda::FirstKeyTile(reach, 0); at.part < kMaxRanges;
       at = cuda::NextKeyTile(reach, at)) {
    walked.emplace_back(at.part, at.number);
  }
  EXPECT_THAT(walked,
              ElementsAre(std::pair(0, 3), std::pair(0, 4), std::pair(2, 10), std::pair(2, 11),
                          std::pair(2, 12), std::pair(2, 13), std::pair(2, 14), std::pair(2, 15),
                          std::pair(2, 16), std::pair(2, 17)));
  for (int64_t split = 0; split < 6; ++split) {
    const cuda::KeyTile at = cuda::FirstOfSplit(reach, split);
    split_begins.emplace_back(at.part, at.number);
  }
  EXPECT_THAT(split_begins, ElementsAre(std::pair(0, 3), std::pair(0, 4), std::pair(2, 10),
                                        std::pair(2, 12), std::pair(2, 16), std::pair(3, 0)));
  EXPECT_TRUE(cuda::AreOfOneSplit({2, 12}, {2, 15}));
  EXPECT_FALSE(cuda::AreOfOneSplit({2, 11}, {2, 12}));
  EXPECT_FALSE(cuda::AreOfOneSplit({1, 12}, {2, 12}));
}

TEST(TileAttentionPlanTest, RefusesWhatItCannotRun) {
  const auto message = [](const TileAttentionSizes& sizes) {
    const absl::Status status = PlanTileAttention(sizes, 132).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({1, 1, 1, 1, 129, 1, 1}), HasSubstr("head_dim 129, expected 1 to 128"));
  EXPECT_THAT(message({1, 1, 0, 1, 64, 1, 1}), HasSubstr("0 heads"));
  EXPECT_THAT(message({1, 1, 4, 3, 64, 1, 1}), HasSubstr("4 heads over key-value heads: 3"));
  EXPECT_THAT(message({1, 1, 4, 0, 64, 1, 1}), HasSubstr("key-value heads: 0"));
  EXPECT_THAT(message({-1, 1, 1, 1, 64, 1, 1}), HasSubstr("-1 rows"));
  EXPECT_THAT(message({17, 1, 4, 1, 64, 17, 1}), HasSubstr("tiles of 17 rows, at most 16"));
  EXPECT_THAT(message({1, 1, 65, 1, 64, 1, 1}), HasSubstr("tiles of 1 rows, at most 0"));
  EXPECT_THAT(message({1, 1, 1, 1, 64, 1, 65536}), HasSubstr("65536 splits, at most 65535"));
}

TEST(TileAttentionPlanTest, ChecksTablesAndRanges) {
  const std::vector<RangeSet> sets = {Set(0, 5, 0, 0, 0, 1), Set(0, 6, 0, 0, 0, 2)};
  const std::vector<RowTile> tiles = RowTilesOf(std::vector<CacheRows>{{.rows = 2}}, sets, 64);
  const TileAttentionPlan plan = *PlanTileAttention(
      SizesOf({.rows = 2, .heads = 1, .kv_heads = 1, .head_dim = 64}, tiles), Strategy::kByTile);
  EXPECT_EQ(CheckTileAttention(plan, tiles, sets), absl::OkStatus());
  const auto message = [&](const auto& change) {
    std::vector<RowTile> changed = tiles;
    std::vector<RangeSet> ranges = sets;
    change(changed[0], ranges);
    return std::string(CheckTileAttention(plan, changed, ranges).message());
  };
  EXPECT_THAT(message([](RowTile&, auto& ranges) { ranges.pop_back(); }),
              HasSubstr("1 rows in 1 tiles, planned for 2 in 1"));
  EXPECT_THAT(message([](RowTile& tile, auto&) { tile.rows = 3; }),
              HasSubstr("tile 0: 3 rows, planned for 2"));
  EXPECT_THAT(message([](RowTile& tile, auto&) { tile.first_row = 1; }),
              HasSubstr("tile 0: rows 1 to 3, expected from 0 on, of 2"));
  EXPECT_THAT(message([](RowTile& tile, auto&) { tile.rows = 1; }),
              HasSubstr("row 1 is in no tile"));
  EXPECT_THAT(message([](RowTile& tile, auto&) { tile.reach.ranges[0].end = 1000; }),
              HasSubstr("tile 0: 5 splits, planned for 2"));
  EXPECT_THAT(message([](RowTile&, auto& ranges) { ranges[1].ranges[0].end = 7; }),
              HasSubstr("row 1: entries 0 to 7, its tile reaches from 0 to 6"));
  EXPECT_THAT(message([](RowTile& tile, auto& ranges) {
                ranges[1].ranges[0].begin = tile.reach.ranges[0].begin = -1;
              }),
              HasSubstr("row 1: entries -1 to 6"));
}

}  // namespace
}  // namespace recollect::kernels
