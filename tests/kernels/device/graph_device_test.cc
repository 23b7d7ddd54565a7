// Operations that run as graphs, on a device that is the host: what comes again is launched, and
// nothing but that is different.
#include "kernels/device/graph_device.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/device/device_arrays.h"
#include "tests/kernels/device/host_device.h"

namespace recollect::kernels {
namespace {

constexpr int64_t kCount = 4;

class GraphDeviceTest : public ::testing::Test {
 protected:
  // y += x, times over, by way of the graphs.
  absl::Status AddTogether(int times) {
    return graphs_.Record([&] {
      for (int i = 0; i < times; ++i) RETURN_IF_ERROR(graphs_.Run(AddOp{x_, kCount, y_}));
      return absl::OkStatus();
    });
  }
  // What y has become, by number of times that x was added.
  float Sum() { return arrays_.Read(y_, kCount)[0]; }

  HostDevice device_;
  GraphDevice graphs_{device_, /*most_graphs=*/2};
  device_cases::Arrays arrays_{device_};
  const float* const x_ = arrays_.Place(std::vector<float>(kCount, 1.0f));
  float* const y_ = arrays_.Place(std::vector<float>(kCount, 0.0f));
};

TEST_F(GraphDeviceTest, WhatComesAgainIsLaunched) {
  for (int step = 1; step <= 5; ++step) {
    EXPECT_EQ(AddTogether(3), absl::OkStatus());
    EXPECT_EQ(Sum(), static_cast<float>(3 * step));
    EXPECT_EQ(graphs_.captured(), step < 2 ? 0 : 1);
    EXPECT_EQ(graphs_.launched(), step - 1);
  }
}

TEST_F(GraphDeviceTest, OtherArgumentsAreAnotherGraph) {
  const auto add = [&](const float* x, int64_t count) {
    EXPECT_EQ(graphs_.Record([&] { return graphs_.Run(AddOp{x, count, y_}); }), absl::OkStatus());
  };
  const float* const other = arrays_.Place(std::vector<float>(kCount, 10.0f));
  for (int step = 0; step < 2; ++step) {
    add(x_, kCount);
    add(other, kCount);
  }
  EXPECT_EQ(graphs_.captured(), 2);
  EXPECT_EQ(Sum(), 22);
  add(x_, kCount - 1);
  EXPECT_EQ(arrays_.Read(y_, kCount), (std::vector<float>{23, 23, 23, 22}));
  EXPECT_EQ(graphs_.launched(), 2);
}

// A graph reads what memory holds when it runs.
TEST_F(GraphDeviceTest, NumbersMayChange) {
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> x(kCount, static_cast<float>(step));
    ASSERT_EQ(graphs_.Upload(x.data(), kCount * int64_t{sizeof(float)}, const_cast<float*>(x_)),
              absl::OkStatus());
    EXPECT_EQ(AddTogether(1), absl::OkStatus());
  }
  EXPECT_EQ(graphs_.launched(), 2);
  EXPECT_EQ(Sum(), 3);
}

TEST_F(GraphDeviceTest, TheOneUsedLongestAgoGoes) {
  for (const int times : {1, 1, 2, 2, 1, 3, 3}) EXPECT_EQ(AddTogether(times), absl::OkStatus());
  EXPECT_EQ(graphs_.captured(), 3);
  EXPECT_EQ(AddTogether(1), absl::OkStatus());  // kept
  EXPECT_EQ(graphs_.captured(), 3);
  EXPECT_EQ(AddTogether(2), absl::OkStatus());  // gone: new
  EXPECT_EQ(graphs_.launched(), 5);
  EXPECT_EQ(Sum(), 16);
}

// What needs memory or waits is no part of a graph; everything keeps its order.
TEST_F(GraphDeviceTest, OperationsBeforeADownloadRunFirst) {
  for (int step = 1; step <= 3; ++step) {
    float between = 0;
    const absl::Status status = graphs_.Record([&]() -> absl::Status {
      RETURN_IF_ERROR(graphs_.Run(AddOp{x_, kCount, y_}));
      RETURN_IF_ERROR(graphs_.Download(y_, sizeof(between), &between));
      return graphs_.Run(AddOp{x_, kCount, y_});
    });
    EXPECT_EQ(status, absl::OkStatus());
    EXPECT_EQ(between, static_cast<float>(2 * step - 1));
    EXPECT_EQ(Sum(), static_cast<float>(2 * step));
  }
  EXPECT_EQ(graphs_.launched(), 0);
}

TEST_F(GraphDeviceTest, MemoryThatGrowsInBetweenIsNoGraph) {
  std::shared_ptr<DeviceBuffer> scratch;
  const auto step = [&](int64_t bytes) {
    EXPECT_EQ(graphs_.Record([&]() -> absl::Status {
      RETURN_IF_ERROR(graphs_.Run(AddOp{x_, kCount, y_}));
      ASSIGN_OR_RETURN(void* const memory, AtLeast(graphs_, bytes, scratch));
      RETURN_IF_ERROR(graphs_.Run(ZeroOp{memory, bytes}));
      return graphs_.Run(AddOp{static_cast<const float*>(memory), kCount, y_});
    }),
              absl::OkStatus());
  };
  for (const int64_t bytes : {64, 64, 64, 4096, 64, 64}) step(bytes);
  EXPECT_EQ(graphs_.launched(), 2);
  EXPECT_EQ(Sum(), 6);
}

TEST_F(GraphDeviceTest, ADeviceWithoutGraphsRunsOneByOne) {
  device_.RefuseGraphs(absl::UnimplementedError("the test's device has no graphs"));
  for (int step = 1; step <= 4; ++step) {
    EXPECT_EQ(AddTogether(2), absl::OkStatus());
    EXPECT_EQ(Sum(), static_cast<float>(2 * step));
  }
  EXPECT_EQ(graphs_.captured(), 0);
}

// Then there may be room for fewer, and when there is none for any, nobody asks again.
TEST_F(GraphDeviceTest, LackOfMemoryLeavesFewer) {
  device_.RefuseGraphs(absl::ResourceExhaustedError("no memory for graphs"));
  for (int step = 0; step < 2; ++step) EXPECT_EQ(AddTogether(1), absl::OkStatus());
  device_.RefuseGraphs(absl::OkStatus());
  for (int step = 0; step < 3; ++step) EXPECT_EQ(AddTogether(1), absl::OkStatus());
  EXPECT_EQ(graphs_.launched(), 2);
  for (const int times : {2, 2, 1, 1}) EXPECT_EQ(AddTogether(times), absl::OkStatus());
  EXPECT_EQ(graphs_.captured(), 3);  // only one is kept
  device_.RefuseGraphs(absl::ResourceExhaustedError("no memory for graphs"));
  for (int step = 0; step < 2; ++step) EXPECT_EQ(AddTogether(3), absl::OkStatus());
  device_.RefuseGraphs(absl::OkStatus());
  for (int step = 0; step < 3; ++step) EXPECT_EQ(AddTogether(4), absl::OkStatus());
  EXPECT_EQ(graphs_.captured(), 3);
  EXPECT_EQ(Sum(), 2 + 3 + 6 + 6 + 12);
}

TEST_F(GraphDeviceTest, ErrorsComeOut) {
  const absl::Status mine = absl::InvalidArgumentError("mine");
  EXPECT_EQ(graphs_.Record([&]() -> absl::Status {
    RETURN_IF_ERROR(graphs_.Run(AddOp{x_, kCount, y_}));
    return mine;
  }),
            mine);
  EXPECT_EQ(AddTogether(1), absl::OkStatus());
  EXPECT_EQ(AddTogether(1), absl::OkStatus());
  device_.LoseAfter(0);
  EXPECT_EQ(AddTogether(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(graphs_.health().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace recollect::kernels
