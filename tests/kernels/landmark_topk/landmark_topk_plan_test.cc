#include "kernels/landmark_topk/landmark_topk_plan.h"

#include <gmock/gmock.h>

#include "kernels/landmark_topk/landmark_topk_kernel.h"
#include "tests/kernels/device/host_device.h"
#include "tests/kernels/landmark_topk/landmark_topk_cases.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

// A missing barrier, and threads of a phase that depend on each other, would show.
TEST(LandmarkBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  HostDevice reversed(HostOrder::kPhasesReversed);
  int way = 0;
  landmark_cases::CheckAgreesWithSortingAllScores(
      [&](const landmark_cases::Call& call) {
        return landmark_cases::RunOnDevice(reversed, call, way++ % landmark_cases::Call::kWays);
      },
      landmark_cases::RisingKeys(3001, 24, 6), kMaxDeviceTopK);
  // Two parts and a list that is sorted more than once, with waits of threads in every step.
  const int width = 20, queries = 5, n = 100;
  const int64_t count = 1100;
  const std::vector<Bf16> keys = NormalBf16(count * width, 2);
  const landmark_cases::Call call{width,
                                  Normals(queries * width, 1),
                                  {{keys.data(), 700}, {keys.data() + 700 * width, count - 700}},
                                  n};
  HostDevice phases;
  const auto expected = landmark_cases::RunOnDevice(phases, call, 0);
  for (HostOrder order : kHostOrders) {
    HostDevice host(order);
    EXPECT_TRUE(SameBits(landmark_cases::RunOnDevice(host, call, 0), expected))
        << static_cast<int>(order);
  }
}

// Keys in three segments, one of which is empty, and parts that begin and end within them.
TEST(LandmarkBlockTest, LoadsAheadHaveTheBitsOfTilesInAnyOrder) {
  for (const int width : {64, 128, 256}) {
    const int64_t count = 2500;
    const std::vector<Bf16> keys = NormalBf16(count * width, 2);
    const landmark_cases::Call call{
        width,
        Normals(width, 1),
        {{keys.data(), 701}, {nullptr, 0}, {keys.data() + 701 * width, count - 701}},
        100};
    HostDevice phases;
    const auto tiles = landmark_cases::RunOnDevice(phases, call, 3);  // keys at odd addresses
    for (HostOrder order : kHostOrders) {
      HostDevice host(order);
      for (const int way : {0, 1}) {
        EXPECT_TRUE(SameBits(landmark_cases::RunOnDevice(host, call, way), tiles))
            << width << ", order " << static_cast<int>(order) << ", way " << way;
      }
    }
  }
}

TEST(LandmarkTopKPlanTest, OneQueryLoadsAhead) {
  const auto plan = [](int64_t queries, int width, bool aligned) {
    return *PlanLandmarkTopK({queries, width, 1 << 20, 8, aligned}, 132);
  };
  using enum LandmarkTopKPlan::Strategy;
  for (const int width : {64, 128, 256}) {
    EXPECT_EQ(plan(1, width, true).strategy, kAhead);
    EXPECT_EQ(plan(1, width, true).parts, 256);  // of 32 steps, two a multiprocessor
    EXPECT_EQ(plan(1, width, false).strategy, kTiles);
  }
  EXPECT_EQ(plan(1, 192, true).strategy, kTiles);
  EXPECT_EQ(plan(2, 128, true).strategy, kTiles);
}

TEST(LandmarkTopKPlanTest, PartsCoverTheCandidatesOnce) {
  for (int64_t count : {0, 1, 1023, 1024, 1025, 262144, 5000001}) {
    for (int multiprocessors : {1, 108, 132}) {
      for (int queries : {1, 4, 5, 64, 10000}) {
        SCOPED_TRACE(absl::StrCat(count, " keys, ", multiprocessors, ", ", queries));
        const auto plan = PlanLandmarkTopK(
            {.queries = queries, .width = 128, .candidates = count, .n = 8}, multiprocessors);
        ASSERT_TRUE(plan.ok());
        EXPECT_GE(plan->parts * plan->part_keys, count);
        EXPECT_LT((plan->parts - 1) * plan->part_keys, std::max<int64_t>(count, 1));
        EXPECT_EQ(plan->part_keys % cuda::kTopKStep, 0);
        EXPECT_EQ(plan->query_tiles, (queries + 3) / 4);
        EXPECT_LE(plan->parts, 65535);
        EXPECT_EQ(plan->workspace_bytes, queries * plan->parts * 8 * 8);
        EXPECT_FLOAT_EQ(plan->scale, 1 / std::sqrt(128.0f));
      }
    }
  }
}

TEST(LandmarkTopKPlanTest, RefusesWhatItCannotRun) {
  const auto message = [](const LandmarkTopKSizes& sizes) {
    const absl::Status status = PlanLandmarkTopK(sizes, 132).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({1, 128, 10, 257}), HasSubstr("n 257, at most 256"));
  EXPECT_THAT(message({1, 1025, 10, 1}), HasSubstr("width 1025, at most 1024"));
  EXPECT_THAT(message({1, 0, 10, 1}), HasSubstr("width 0"));
  EXPECT_THAT(message({1, 64, int64_t{1} << 30, 1}), HasSubstr("1073741824 landmark keys"));
  EXPECT_THAT(message({-1, 64, 10, 1}), HasSubstr("-1 queries"));
}

TEST(LandmarkTopKPlanTest, TableNumbersCandidatesThroughTheSegments) {
  const Bf16 keys[3] = {};
  const KeySegment segments[] = {{keys, 5}, {nullptr, 0}, {keys + 1, 2}};
  const std::vector<SegmentStart> table = SegmentTable(segments);
  ASSERT_EQ(table.size(), 4u);
  EXPECT_EQ(table[0].first, 0);
  EXPECT_EQ(table[1].first, 5);
  EXPECT_EQ(table[2].first, 5);
  EXPECT_EQ(table[2].keys, keys + 1);
  EXPECT_EQ(table[3].first, 7);
  EXPECT_EQ(SegmentTable({}).size(), 1u);
}

}  // namespace
}  // namespace recollect::kernels
