#include "kernels/linear_attention/linear_attention_plan.h"

#include <gmock/gmock.h>

#include "tests/kernels/device/host_device.h"
#include "tests/kernels/linear_attention/linear_attention_cases.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

// A missing barrier, and threads of a phase that depend on each other, would show.
TEST(LinearAttentionBlockTest, OrderOfThreadsWarpsAndBlocksDoesNotMatter) {
  HostDevice phases;
  for (const LinearAttentionShape& shape : {LinearAttentionShape{6, 2, 34}, {2, 2, 12}}) {
    linear_cases::Call call{.shape = shape};
    call.initial = linear_cases::RandomInitial(call, 9);
    for (int64_t rows : {1, 21}) {
      call.sequences.push_back(linear_cases::RandomSequence(call, rows, rows * 2 / 3, 3));
    }
    const auto expected = linear_cases::RunOnDevice(phases, call, 0);
    for (HostOrder order : kHostOrders) {
      HostDevice host(order);
      EXPECT_TRUE(linear_cases::SameBits(linear_cases::RunOnDevice(host, call, 0), expected))
          << static_cast<int>(order);
    }
  }
}

TEST(LinearAttentionPlanTest, BlocksCoverColumnsAndFeatures) {
  const auto plan = [](int head_dim) {
    return *PlanLinearAttention({.segments = 1, .shape = {4, 2, head_dim}});
  };
  EXPECT_EQ(plan(2).tiles, 1);
  EXPECT_EQ(plan(2).lanes, 1);
  EXPECT_EQ(plan(2).threads, 32);
  EXPECT_EQ(plan(34).tiles, 5);
  EXPECT_EQ(plan(34).lanes, 9);
  EXPECT_EQ(plan(34).threads, 96);
  EXPECT_EQ(plan(128).tiles, 16);
  EXPECT_EQ(plan(128).lanes, 32);
  EXPECT_EQ(plan(128).threads, 256);
}

TEST(LinearAttentionPlanTest, RefusesWhatItCannotRun) {
  const auto message = [](const LinearAttentionSizes& sizes) {
    const absl::Status status = PlanLinearAttention(sizes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({-1, {4, 2, 8}}), HasSubstr("-1 segments, expected 0 to 65535"));
  EXPECT_THAT(message({65536, {4, 2, 8}}), HasSubstr("65536 segments"));
  EXPECT_THAT(message({1, {0, 1, 8}}), HasSubstr("0 heads, expected 1 to 65535"));
  EXPECT_THAT(message({1, {65536, 1, 8}}), HasSubstr("65536 heads"));
  EXPECT_THAT(message({1, {4, 0, 8}}), HasSubstr("4 heads over key-value heads: 0"));
  EXPECT_THAT(message({1, {4, 3, 8}}), HasSubstr("4 heads over key-value heads: 3"));
  EXPECT_THAT(message({1, {4, 2, 0}}), HasSubstr("head_dim 0, expected an even number up to 128"));
  EXPECT_THAT(message({1, {4, 2, 7}}), HasSubstr("head_dim 7"));
  EXPECT_THAT(message({1, {4, 2, 130}}), HasSubstr("head_dim 130"));
}

TEST(LinearAttentionPlanTest, ChecksSegmentsAgainstThePlan) {
  const auto plan = PlanLinearAttention({.segments = 2, .shape = {4, 2, 8}});
  float numbers[1] = {};
  const LinearAttentionSegment good{.q = numbers,
                                    .keys = numbers,
                                    .values = numbers,
                                    .state = numbers,
                                    .out = numbers,
                                    .rows = 5,
                                    .entering = 5};
  EXPECT_EQ(CheckLinearAttention(*plan, std::vector{good, LinearAttentionSegment{}}),
            absl::OkStatus());
  EXPECT_EQ(CheckLinearAttention(*plan, {}), absl::OkStatus());
  const auto message = [&](const std::vector<LinearAttentionSegment>& segments) {
    const absl::Status status = CheckLinearAttention(*plan, segments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({good, good, good}), HasSubstr("3 segments, planned for 2"));
  const auto with = [&](auto change) {
    LinearAttentionSegment bad = good;
    change(bad);
    return message({good, bad});
  };
  EXPECT_THAT(with([](auto& s) { s.rows = -1; }), HasSubstr("segment 1: -1 rows, expected 0 to"));
  EXPECT_THAT(with([](auto& s) { s.rows = (1 << 28) + 1; }), HasSubstr("268435457 rows"));
  EXPECT_THAT(with([](auto& s) { s.entering = 6; }), HasSubstr("6 positions enter in 5 rows"));
  EXPECT_THAT(with([](auto& s) { s.entering = -1; }), HasSubstr("-1 positions enter"));
  EXPECT_THAT(with([](auto& s) { s.q = nullptr; }), HasSubstr("segment 1: no q, state or out"));
  EXPECT_THAT(with([](auto& s) { s.state = nullptr; }), HasSubstr("no q, state or out"));
  EXPECT_THAT(with([](auto& s) { s.out = nullptr; }), HasSubstr("no q, state or out"));
  EXPECT_THAT(with([](auto& s) { s.keys = nullptr; }), HasSubstr("no keys or values of 5"));
  EXPECT_THAT(with([](auto& s) { s.values = nullptr; }), HasSubstr("no keys or values of 5"));
}

}  // namespace
}  // namespace recollect::kernels
