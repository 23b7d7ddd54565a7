#include "kernels/gca_plan.h"

#include <gmock/gmock.h>

#include "tests/kernels/gca_device_checks.h"

namespace recollect::kernels {
namespace {

using gca_cases::kLeastSharedBytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr GcaShape kShape{4, 2, 64};
constexpr int64_t kSharedBytes = 163 * 1024;  // of a thread block on compute capability 8.0

auto OnHost(HostOrder order) {
  return
      [order](const GcaPlan& plan, const std::vector<float>& q, const std::vector<GcaGroup>& groups,
              const std::vector<MemoryView>& chunks, const std::vector<float>& weights) {
        return gca_cases::RunOnHost(plan, q, groups, chunks, weights, order);
      };
}

TEST(GcaBlockTest, MatchesReferenceBothWays) {
  gca_cases::CheckMatchesReference(OnHost(HostOrder::kPhases));
}

TEST(GcaBlockTest, ARowHasTheSameBitsInAnyCompany) {
  gca_cases::CheckARowHasTheSameBitsInAnyCompany(OnHost(HostOrder::kPhases));
}

// A missing barrier, and threads of a phase that depend on each other, would show.
TEST(GcaBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  for (const gca_cases::Case& c : gca_cases::Cases()) {
    const gca_cases::Inputs in(c, 1);
    for (GcaPlan::Way way : gca_cases::kWays) {
      // By chunk, a block goes through its rows one after the other: few show what many would.
      const int64_t rows = way == GcaPlan::Way::kByChunk ? std::min<int64_t>(c.rows, 3) : c.rows;
      gca_cases::Batch batch;
      gca_cases::AddGroup(in, 0, rows, &batch);
      const auto expected = gca_cases::Run(OnHost(HostOrder::kPhases), c.shape, batch, way);
      for (HostOrder order : kHostOrders) {
        EXPECT_TRUE(SameBits(gca_cases::Run(OnHost(order), c.shape, batch, way), expected))
            << gca_cases::NameOf(way) << ", " << c.rows << " rows, " << static_cast<int>(order);
      }
    }
  }
}

TEST(GcaPlanTest, FewRowsGoByChunk) {
  const auto way = [](int rows) {
    return PlanGca(kShape, {.groups = 1, .rows = rows, .max_group_rows = rows}, kSharedBytes)->way;
  };
  EXPECT_EQ(way(1), GcaPlan::Way::kByChunk);
  EXPECT_EQ(way(64), GcaPlan::Way::kByTile);
}

TEST(GcaPlanTest, SizesAreThoseOfTheLayouts) {
  const GcaSizes sizes{.groups = 3, .rows = 70, .max_group_rows = 64, .max_group_chunks = 8};
  const auto by_chunk = PlanGca(kShape, sizes, kSharedBytes, GcaPlan::Way::kByChunk);
  ASSERT_TRUE(by_chunk.ok());
  EXPECT_EQ(by_chunk->workspace_bytes, 70 * 8 * 4 * 64 * 4);
  EXPECT_EQ(by_chunk->shared_bytes, 0);
  const auto by_tile = PlanGca(kShape, sizes, kSharedBytes, GcaPlan::Way::kByTile);
  ASSERT_TRUE(by_tile.ok());
  EXPECT_EQ(by_tile->workspace_bytes, 0);
  EXPECT_EQ(by_tile->shared_bytes, (3 * 64 * 65 + 64 * 65) * 4);
  EXPECT_EQ(
      PlanGca({1, 1, kMaxGcaHeadDim}, sizes, kSharedBytes, GcaPlan::Way::kByTile)->shared_bytes,
      (3 * 64 * 129 + 64 * 65) * 4);
}

// The tiles of the widest heads fit on compute capability 8.0, not on 8.6 and 8.9.
TEST(GcaPlanTest, WhereATileDoesNotFitRowsGoByChunkWithTheSameBits) {
  const gca_cases::Case c{{2, 1, kMaxGcaHeadDim}, 6, {64, 3}};
  const gca_cases::Inputs in(c, 1);
  gca_cases::Batch batch;
  gca_cases::AddGroup(in, 0, c.rows, &batch);
  const GcaSizes sizes = gca_cases::SizesOf(batch);
  const auto by_tile = PlanGca(c.shape, sizes, kSharedBytes);
  const auto by_chunk = PlanGca(c.shape, sizes, kLeastSharedBytes);
  ASSERT_TRUE(by_tile.ok()) << by_tile.status();
  ASSERT_TRUE(by_chunk.ok()) << by_chunk.status();
  EXPECT_EQ(by_tile->way, GcaPlan::Way::kByTile);
  EXPECT_EQ(by_chunk->way, GcaPlan::Way::kByChunk);
  const auto run = [&](const GcaPlan& plan) {
    return OnHost(HostOrder::kPhases)(plan, batch.q, batch.groups, batch.chunks, batch.weights);
  };
  EXPECT_TRUE(SameBits(run(*by_chunk), run(*by_tile)));
  // Just fits; and asked for by name, nothing takes its place.
  EXPECT_EQ(PlanGca(c.shape, sizes, by_tile->shared_bytes)->way, GcaPlan::Way::kByTile);
  const absl::Status status =
      PlanGca(c.shape, sizes, kLeastSharedBytes, GcaPlan::Way::kByTile).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("needs 115712 bytes"), HasSubstr("has 101376")));
}

TEST(GcaPlanTest, RefusesWhatItCannotRun) {
  const auto message = [](const GcaShape& shape, const GcaSizes& sizes) {
    const absl::Status status = PlanGca(shape, sizes, kSharedBytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({4, 3, 64}, {}), HasSubstr("memory heads: 3"));
  EXPECT_THAT(message({4, 0, 64}, {}), HasSubstr("memory heads: 0"));
  EXPECT_THAT(message({4, 4, 129}, {}), HasSubstr("head_dim 129, expected 1 to 128"));
  EXPECT_THAT(message({4, 4, 0}, {}), HasSubstr("head_dim 0"));
  EXPECT_THAT(message(kShape, {.max_group_rows = 65}), HasSubstr("65 rows, at most 64"));
  EXPECT_THAT(message(kShape, {.rows = -1}), HasSubstr("-1 rows"));
  EXPECT_THAT(std::string(PlanGca(kShape, {}, 1000).status().message()),
              HasSubstr("needs 1024 bytes of shared memory, the device has 1000"));
}

TEST(GcaPlanTest, ChecksGroupsAndChunks) {
  const GcaPlan plan = *PlanGca(
      kShape, {.groups = 2, .rows = 8, .max_group_rows = 4, .max_group_chunks = 2}, kSharedBytes);
  const Bf16 memory[1] = {};
  const std::vector<MemoryView> chunks = {{memory, memory, 63}, {memory, memory, 1}};
  const auto message = [&](const std::vector<GcaGroup>& groups,
                           const std::vector<MemoryView>& views) {
    const absl::Status status = CheckGca(plan, groups, views);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    }
    return std::string(status.message());
  };
  // first_row, first_chunk, rows, chunks
  EXPECT_EQ(message({{0, 0, 4, 2}, {4, 1, 4, 1}}, chunks), "");
  EXPECT_EQ(message({}, {}), "");
  EXPECT_THAT(message({{0, 0, 1, 0}, {1, 0, 1, 0}, {2, 0, 1, 0}}, chunks), HasSubstr("3 groups"));
  EXPECT_THAT(message({{0, 0, 5, 0}}, chunks), HasSubstr("group 0: rows from 0, 5"));
  EXPECT_THAT(message({{5, 0, 4, 0}}, chunks), HasSubstr("rows from 5, 4"));
  EXPECT_THAT(message({{-1, 0, 1, 0}}, chunks), HasSubstr("rows from -1"));
  EXPECT_THAT(message({{0, 0, 0, 0}}, chunks), HasSubstr("rows from 0, 0"));
  EXPECT_THAT(message({{0, 1, 1, 2}}, chunks), HasSubstr("chunks from 1, 2"));
  EXPECT_THAT(message({{0, 0, 1, 3}}, chunks), HasSubstr("chunks from 0, 3"));
  EXPECT_THAT(message({{0, 0, 2, 1}, {1, 0, 2, 1}}, chunks), HasSubstr("takes again row 1"));
  EXPECT_EQ(message({}, {{memory, memory, 64}}), "");
  EXPECT_THAT(message({}, {{memory, memory, 65}}), HasSubstr("chunk 0: 65 rows, expected 1 to 64"));
  EXPECT_THAT(message({}, {{memory, memory, 0}}), HasSubstr("chunk 0: 0 rows"));
}

}  // namespace
}  // namespace recollect::kernels
