#include "kernels/gated_scan/gated_scan_plan.h"

#include <gmock/gmock.h>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/gated_scan/gated_scan_cases.h"

namespace recollect::kernels {
namespace {

using Strategy = GatedScanPlan::Strategy;
using ::testing::HasSubstr;

// A missing barrier, and threads of a phase that depend on each other, would show. In place, with
// rows of one, several and no whole steps.
TEST(GatedScanBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  HostDevice phases;
  for (int inputs : {1, 2}) {
    scan_cases::Call call{.channels = 20, .gap = 1, .in_place = true};
    for (int64_t rows : {1, 120, 601}) {
      call.sequences.push_back(scan_cases::RandomSequence(rows, call.channels, inputs, 3));
    }
    for (int way : {0, 1}) {
      const auto expected = scan_cases::RunOnDevice(phases, call, way);
      for (HostOrder order : kHostOrders) {
        HostDevice host(order);
        EXPECT_TRUE(scan_cases::SameBits(scan_cases::RunOnDevice(host, call, way), expected))
            << "way " << way << ", order " << static_cast<int>(order);
      }
    }
  }
}

TEST(GatedScanPlanTest, LongSequencesThatDoNotFillTheDeviceGoByTile) {
  const auto strategy = [](int64_t segments, int64_t rows, int64_t channels) {
    const GatedScanSizes sizes{.segments = segments, .max_rows = rows, .channels = channels};
    return PlanGatedScan(sizes, 132)->strategy;
  };
  EXPECT_EQ(strategy(1, 262144, 2048), Strategy::kByTile);
  EXPECT_EQ(strategy(8, 262144, 2048), Strategy::kByTile);
  EXPECT_EQ(strategy(64, 262144, 2048), Strategy::kByChannel);
  EXPECT_EQ(strategy(1, 1, 2048), Strategy::kByChannel);
  EXPECT_EQ(strategy(512, 1, 2048), Strategy::kByChannel);
  EXPECT_EQ(strategy(0, 0, 1), Strategy::kByChannel);
}

TEST(GatedScanPlanTest, BlocksCoverTheChannels) {
  const auto blocks = [](int64_t channels, Strategy strategy) {
    return PlanGatedScan({.segments = 1, .max_rows = 1, .channels = channels}, strategy)->blocks;
  };
  EXPECT_EQ(blocks(1, Strategy::kByTile), 1);
  EXPECT_EQ(blocks(2048, Strategy::kByTile), 128);
  EXPECT_EQ(blocks(2049, Strategy::kByTile), 129);
  EXPECT_EQ(blocks(128, Strategy::kByChannel), 1);
  EXPECT_EQ(blocks(129, Strategy::kByChannel), 2);
}

TEST(GatedScanPlanTest, RefusesWhatItCannotRun) {
  constexpr int64_t kTooMany = (int64_t{1} << 30) + 1;
  const auto message = [](const GatedScanSizes& sizes) {
    const absl::Status status = PlanGatedScan(sizes, 132).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({-1, 1, 8}), HasSubstr("-1 segments"));
  EXPECT_THAT(message({65536, 1, 8}), HasSubstr("65536 segments, at most 65535"));
  EXPECT_THAT(message({1, -2, 8}), HasSubstr("-2 rows"));
  EXPECT_THAT(message({1, kTooMany, 8}), HasSubstr("1073741825 rows"));
  EXPECT_THAT(message({1, 1, 0}), HasSubstr("0 channels, expected 1 to"));
  EXPECT_THAT(message({1, 1, kTooMany}), HasSubstr("1073741825 channels, expected 1 to"));
  EXPECT_THAT(message({1, 1, 8, 0}), HasSubstr("0 inputs, expected 1 to 2"));
  EXPECT_THAT(message({1, 1, 8, 3}), HasSubstr("3 inputs, expected 1 to 2"));
  EXPECT_THAT(message({1, 1, 8, 1, -1}), HasSubstr("chunk -1"));
  EXPECT_THAT(message({1, 1, 8, 1, kTooMany}), HasSubstr("chunk 1073741825"));
}

TEST(GatedScanPlanTest, ChecksSegmentsAgainstThePlan) {
  const auto plan = PlanGatedScan({.segments = 2, .max_rows = 5, .channels = 1, .inputs = 2}, 132);
  float numbers[8] = {};
  GatedScanSegment good{.z = numbers, .rows = 5, .first = 7};
  for (int i = 0; i < 2; ++i) {
    good.x[i] = good.y[i] = numbers;
    good.state[i] = numbers;
  }
  EXPECT_EQ(CheckGatedScan(*plan, std::vector{good, GatedScanSegment{}}), absl::OkStatus());
  EXPECT_EQ(CheckGatedScan(*plan, {}), absl::OkStatus());
  const auto message = [&](const std::vector<GatedScanSegment>& segments) {
    const absl::Status status = CheckGatedScan(*plan, segments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({good, good, good}), HasSubstr("3 segments, planned for 2"));
  const auto with = [&](auto change) {
    GatedScanSegment bad = good;
    change(bad);
    return message({good, bad});
  };
  EXPECT_THAT(with([](auto& s) { s.rows = 6; }), HasSubstr("segment 1: 6 rows, planned for 5"));
  EXPECT_THAT(with([](auto& s) { s.rows = -1; }), HasSubstr("segment 1: -1 rows"));
  EXPECT_THAT(with([](auto& s) { s.first = -3; }), HasSubstr("segment 1: begins at position -3"));
  EXPECT_THAT(with([](auto& s) { s.z = nullptr; }), HasSubstr("segment 1: no z"));
  EXPECT_THAT(with([](auto& s) { s.x[0] = nullptr; }), HasSubstr("of input 0 of 2"));
  EXPECT_THAT(with([](auto& s) { s.y[1] = nullptr; }), HasSubstr("of input 1 of 2"));
  EXPECT_THAT(with([](auto& s) { s.state[1] = nullptr; }), HasSubstr("of input 1 of 2"));
}

}  // namespace
}  // namespace recollect::kernels
