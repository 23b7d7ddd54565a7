#include "kernels/sparse_topk/sparse_topk_plan.h"

#include <gmock/gmock.h>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/sparse_topk/sparse_topk_cases.h"

namespace recollect::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A missing barrier, and threads of a phase that depend on each other, would show.
TEST(SparseBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  std::vector<SparseRange> ranges;
  for (const int64_t blocks : {700, 2100}) {
    ranges.push_back(sparse_cases::RandomRows(blocks, blocks > 1000, 4).range());
  }
  sparse_cases::Call call{{&ranges[0], &ranges[1]}, {}, 100};
  call.queries = {sparse_cases::RandomQuery(140, 1), sparse_cases::RandomQuery(20, 2)};
  for (const int width : {0, 12}) {
    call.width = width;
    call.dense = Normals(2 * width, 1);
    call.dense_keys = {NormalBf16(700 * width, 2), NormalBf16(2100 * width, 3)};
    HostDevice phases;
    const auto expected = sparse_cases::RunOnDevice(phases, call, 0);
    for (const HostOrder order : kHostOrders) {
      HostDevice host(order);
      EXPECT_TRUE(SameBits(sparse_cases::RunOnDevice(host, call, 0), expected))
          << static_cast<int>(order);
    }
  }
}

TEST(SparseTopKPlanTest, SlicesCoverTheBlocksOnce) {
  std::vector<DeviceSparseRange> ranges(4);
  ranges[0].lists.blocks = 1;
  ranges[2].lists.blocks = 2 * kSliceBlocks;
  ranges[3].lists.blocks = kSliceBlocks + 1;
  EXPECT_THAT(SparseSlices(ranges),
              ElementsAre(SparseSlice{0, 0}, SparseSlice{2, 0}, SparseSlice{2, kSliceBlocks},
                          SparseSlice{3, 0}, SparseSlice{3, kSliceBlocks}));
  EXPECT_THAT(SparseSlices({}), IsEmpty());
}

TEST(SparseTopKPlanTest, SaysItsWorkspace) {
  const auto plan =
      PlanSparseTopK({.queries = 3, .slices = 142, .candidates = 290000, .width = 64, .n = 8});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->workspace_bytes, 3 * 142 * 8 * 8);
  EXPECT_EQ(plan->dense_scale, 0.125f);
}

TEST(SparseTopKPlanTest, RefusesWhatItCannotRun) {
  const auto message = [](const SparseTopKSizes& sizes) {
    const absl::Status status = PlanSparseTopK(sizes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({1, 1, 10, 0, 257}), HasSubstr("n 257, at most 256"));
  EXPECT_THAT(message({1, 1, 10, 1025, 1}), HasSubstr("width 1025, at most 1024"));
  EXPECT_THAT(message({1, 1, int64_t{1} << 30, 0, 1}), HasSubstr("1073741824 blocks"));
  EXPECT_THAT(message({65536, 65536, 10, 0, 1}),
              HasSubstr("65536 queries over 65536 slices, at most 32767"));
  EXPECT_THAT(message({-1, 1, 10, 0, 1}), HasSubstr("-1 queries"));
}

}  // namespace
}  // namespace recollect::kernels
