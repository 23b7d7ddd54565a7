#include "kernels/gca/gca_plan.h"

#include <gmock/gmock.h>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/gca/gca_cases.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;
using enum DType;

constexpr GcaShape kShape{4, 2, 64};

// A missing barrier, a copy that nobody awaits, and threads of a phase that depend on each other
// would show.
TEST(GcaBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  HostDevice phases;
  for (const gca_cases::Case& c : gca_cases::Cases()) {
    for (DType q_dtype : gca_cases::kDTypes) {
      const gca_cases::Inputs in(c, 1, q_dtype);
      gca_cases::Call call{.shape = c.shape};
      // In fp32 a block goes through its rows one after the other: few show what many would.
      gca_cases::AddGroup(in, 0, q_dtype == kFloat32 ? std::min<int64_t>(c.rows, 3) : c.rows,
                          &call);
      for (int way : {0, 1}) {
        const auto expected = gca_cases::RunOnDevice(phases, call, way);
        for (HostOrder order : kHostOrders) {
          HostDevice host(order);
          EXPECT_TRUE(SameBits(gca_cases::RunOnDevice(host, call, way), expected))
              << "way " << way << ", " << c.rows << " rows, " << static_cast<int>(order);
        }
      }
    }
  }
}

TEST(GcaPlanTest, FewRowsGoByChunk) {
  const auto strategy = [](int rows) {
    return PlanGca(kShape, {.groups = 1, .rows = rows, .max_group_rows = rows}, kBf16)->strategy;
  };
  EXPECT_EQ(strategy(1), GcaPlan::Strategy::kByChunk);
  EXPECT_EQ(strategy(64), GcaPlan::Strategy::kByGroup);
}

TEST(GcaPlanTest, ByChunkHasAWorkspace) {
  const GcaSizes sizes{.groups = 3, .rows = 70, .max_group_rows = 64, .max_group_chunks = 8};
  EXPECT_EQ(PlanGca(kShape, sizes, kBf16, GcaPlan::Strategy::kByChunk)->workspace_bytes,
            70 * 8 * 4 * 64 * 4);
  EXPECT_EQ(PlanGca(kShape, sizes, kBf16, GcaPlan::Strategy::kByGroup)->workspace_bytes, 0);
}

TEST(GcaPlanTest, RefusesWhatItCannotRun) {
  const auto message = [](const GcaShape& shape, const GcaSizes& sizes) {
    const absl::Status status = PlanGca(shape, sizes, kBf16).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({4, 3, 64}, {}), HasSubstr("memory heads: 3"));
  EXPECT_THAT(message({4, 0, 64}, {}), HasSubstr("memory heads: 0"));
  EXPECT_THAT(message({4, 4, 129}, {}), HasSubstr("head_dim 129, expected 1 to 128"));
  EXPECT_THAT(message({4, 4, 0}, {}), HasSubstr("head_dim 0"));
  EXPECT_THAT(message(kShape, {.max_group_rows = 65}), HasSubstr("65 rows, at most 64"));
  EXPECT_THAT(message(kShape, {.rows = -1}), HasSubstr("-1 rows"));
}

TEST(GcaPlanTest, ChecksGroupsAndChunks) {
  const GcaPlan plan = *PlanGca(
      kShape, {.groups = 2, .rows = 8, .max_group_rows = 4, .max_group_chunks = 2}, kFloat32);
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
