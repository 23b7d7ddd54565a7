#include "kernels/range_attention/range_attention_plan.h"

#include <gmock/gmock.h>

#include "kernels/range_attention/range_attention_kernel.h"
#include "tests/kernels/device/host_device.h"
#include "tests/kernels/range_attention/range_attention_cases.h"

namespace recollect::kernels {
namespace {

using range_cases::Set;
using ::testing::HasSubstr;
using Strategy = RangeAttentionPlan::Strategy;

TEST(RangeBlockTest, ListsHaveTheBitsOfRanges) {
  for (HostOrder order : kHostOrders) {
    HostDevice host(order);
    for (int way : {0, 1}) {
      range_cases::CheckListsHaveTheBitsOfRanges(
          [&](const range_cases::Call& call) { return range_cases::RunOnDevice(host, call, way); });
    }
  }
}

// A missing barrier, and threads of a phase that depend on each other, would show.
TEST(RangeBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  HostDevice phases;
  for (const range_cases::Case& c : range_cases::Cases()) {
    const range_cases::Inputs in(c);
    const range_cases::Call call = CallOf(c, in, 0, std::min<int64_t>(in.rows, 10));
    for (int way : {0, 1}) {
      const auto expected = range_cases::RunOnDevice(phases, call, way);
      for (HostOrder order : kHostOrders) {
        HostDevice host(order);
        EXPECT_TRUE(SameBits(range_cases::RunOnDevice(host, call, way), expected))
            << "way " << way << ", " << c.name << ", " << static_cast<int>(order);
      }
    }
  }
}

TEST(RangeAttentionPlanTest, FewRowsGoBySplit) {
  const auto strategy = [](int64_t rows, int64_t entries) {
    return PlanRangeAttention(
               {.rows = rows, .heads = 12, .kv_heads = 12, .head_dim = 64, .max_entries = entries},
               132)
        ->strategy;
  };
  EXPECT_EQ(strategy(1, 187), Strategy::kBySplit);
  EXPECT_EQ(strategy(4096, 187), Strategy::kByRow);
  // Splits that would take more memory than they are worth.
  EXPECT_EQ(strategy(128, 1 << 20), Strategy::kByRow);
  EXPECT_EQ(strategy(1, 1 << 20), Strategy::kBySplit);
}

TEST(RangeAttentionPlanTest, SizesAreThoseOfTheLayouts) {
  const auto splits = [](int64_t entries) {
    return PlanRangeAttention({3, 2, 2, 10, entries}, Strategy::kBySplit)->splits;
  };
  EXPECT_EQ(splits(0), 0);
  EXPECT_EQ(splits(1), 1);
  EXPECT_EQ(splits(256), 1);
  EXPECT_EQ(splits(257), 2);
  EXPECT_EQ(PlanRangeAttention({3, 2, 2, 10, 257}, Strategy::kBySplit)->workspace_bytes,
            3 * 2 * 2 * (2 + 10) * 4);
  EXPECT_EQ(PlanRangeAttention({3, 2, 2, 10, 257}, Strategy::kByRow)->workspace_bytes, 0);
}

TEST(RangeAttentionPlanTest, PlacesGoThroughTheRangesInOrder) {
  const RangeSet set = Set(7, 9, 5, 3, 100, 101);  // the second ends before it begins
  const RangeAttentionOp op = {.plan = {}, .sets = &set};
  EXPECT_EQ(EntriesOf(set), 3);
  EXPECT_EQ(cuda::CountOf(op, 0, 0), 3);
  const auto place = [&](int64_t i) {
    const cuda::EntryPlace at = cuda::PlaceOf(cuda::RowEntriesOf(op, 0, 0), i);
    return std::pair<int, int64_t>(at.part, at.entry);
  };
  EXPECT_EQ(place(0), std::pair(0, int64_t{7}));
  EXPECT_EQ(place(1), std::pair(0, int64_t{8}));
  EXPECT_EQ(place(2), std::pair(2, int64_t{100}));
}

TEST(RangeAttentionPlanTest, RefusesWhatItCannotRun) {
  const auto message = [](const RangeAttentionSizes& sizes) {
    const absl::Status status = PlanRangeAttention(sizes, 132).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({1, 1, 1, 129, 1}), HasSubstr("head_dim 129, expected 1 to 128"));
  EXPECT_THAT(message({1, 0, 1, 64, 1}), HasSubstr("0 heads"));
  EXPECT_THAT(message({1, 4, 3, 64, 1}), HasSubstr("4 heads over key-value heads: 3"));
  EXPECT_THAT(message({1, 4, 0, 64, 1}), HasSubstr("key-value heads: 0"));
  EXPECT_THAT(message({-1, 1, 1, 64, 1}), HasSubstr("-1 rows"));
  EXPECT_THAT(message({1, 1, 1, 64, int64_t{1} << 24}), HasSubstr("16777216 entries, at most"));

  const RangeAttentionPlan plan = *PlanRangeAttention({1, 1, 1, 64, 10}, Strategy::kByRow);
  const std::vector<RangeSet> many = {Set(0, 5, 0, 5, 0, 1)}, before = {Set(-1, 5, 0, 0, 0, 0)};
  EXPECT_THAT(CheckRanges(plan, many).message(), HasSubstr("row 0: 11 entries, planned for 10"));
  EXPECT_THAT(CheckRanges(plan, before).message(), HasSubstr("row 0: a range begins at -1"));
  EXPECT_THAT(CheckRanges(plan, std::vector<RangeSet>(2)).message(), HasSubstr("2 rows"));
}

}  // namespace
}  // namespace recollect::kernels
