// Checks for any kernels::Device, made on the host's (host_device.h) and on a GPU's alike: its
// operations (device_op_checks.h), and memory that is allocated, is freed and runs out as
// kernels/device/device.h says.
#pragma once

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/kernels/device/device_op_checks.h"

namespace recollect::kernels::device_cases {

// Checks uploads from a host array that changes at once and is longer than any staging area, and
// buffers that are freed before the work that uses them is done.
inline void CheckUploadsAndShortLives(Device& device) {
  constexpr int64_t kLong = 6 << 20, kTimes = 4;
  Arrays arrays(device);
  float* const sum = static_cast<float*>(arrays.Allocate(kLong * int64_t{sizeof(float)}));
  ASSERT_EQ(device.Run(ZeroOp{sum, kLong * int64_t{sizeof(float)}}), absl::OkStatus());
  std::vector<float> host(kLong);
  for (int64_t n = 0; n < kTimes; ++n) {
    for (int64_t i = 0; i < kLong; ++i) host[i] = static_cast<float>(i % 1000 + n);
    Arrays of_one_round(device);
    const float* const x = of_one_round.Place(host);
    std::fill(host.begin(), host.end(), -1.0f);
    ASSERT_EQ(device.Run(AddOp{x, kLong, sum}), absl::OkStatus());
  }
  const std::vector<float> total = arrays.Read(sum, kLong);
  for (int64_t i = 0; i < kLong; ++i) {
    ASSERT_EQ(total[i], static_cast<float>(kTimes * (i % 1000) + kTimes * (kTimes - 1) / 2)) << i;
  }
}

// Checks uploads from threads that run nothing else, while the device is busy. The host's arrays
// change at once; some buffers are freed before anybody waits for them, some before the work that
// reads them is done.
inline void CheckUploadsBeside(Device& device) {
  constexpr int64_t kNumbers = 100'000;
  constexpr int kThreads = 4, kTimes = 20;
  Arrays arrays(device);
  float* const sum = arrays.Place(std::vector<float>(kNumbers, 0.0f));
  for (int round = 0; round < kTimes; ++round) {
    std::vector<std::shared_ptr<DeviceBuffer>> coming(kThreads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::vector<float> host(kNumbers, static_cast<float>(thread + 1));
        // Alone, and between others that go before it.
        const std::span<const std::byte> bytes = std::as_bytes(std::span(host));
        const std::vector<std::span<const std::byte>> all = {bytes.first(12), bytes, {}};
        auto buffers =
            thread % 2 == 0 ? device.UploadAllAsync({&bytes, 1}) : device.UploadAllAsync(all);
        std::fill(host.begin(), host.end(), -1.0f);
        ASSERT_TRUE(buffers.ok()) << buffers.status();
        ASSERT_EQ(buffers->size(), thread % 2 == 0 ? 1u : 3u);
        coming[static_cast<size_t>(thread)] = (*buffers)[thread % 2];
      });
    }
    for (std::thread& thread : threads) thread.join();
    coming[0] = nullptr;
    for (int thread = 1; thread < kThreads; ++thread) {
      const DeviceBuffer& buffer = *coming[static_cast<size_t>(thread)];
      ASSERT_EQ(device.Await(buffer), absl::OkStatus());
      ASSERT_EQ(device.Run(AddOp{static_cast<const float*>(buffer.data()), kNumbers, sum}),
                absl::OkStatus());
    }
  }
  const std::vector<float> expected(kNumbers, static_cast<float>(kTimes * (2 + 3 + 4)));
  EXPECT_TRUE(SameBits(arrays.Read(sum, kNumbers), expected));
}

// Checks that the device goes on after calls that are refused, and after calls without bytes.
inline void CheckGoesOnAfterErrors(Device& device) {
  const auto code = [](const absl::Status& status) { return status.code(); };
  EXPECT_EQ(code(device.Allocate(int64_t{1} << 44).status()), absl::StatusCode::kResourceExhausted);
  Arrays arrays(device);
  float* const x = arrays.Place(std::vector<float>{1, 2, 3, 4});
  EXPECT_EQ(code(device.Run(RopeOp{{1, 3}, RopePairs::kHalves, x, x, x})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(device.PrepareGemm({.n = 7, .k = 8, .in = DType::kBf16})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(device.Run(GemmOp{{.n = 1, .k = 4}, x + 1, x, 1, x})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(device.Run(CopyOp{nullptr, -1, 4})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(device.UploadAsync(x, int64_t{1} << 44).status()),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device.Allocate(0).ok());
  EXPECT_TRUE(device.UploadAsync(nullptr, 0).ok());
  EXPECT_TRUE(device.UploadAllAsync({})->empty());
  EXPECT_EQ(device.Upload(nullptr, 0, nullptr), absl::OkStatus());
  EXPECT_EQ(device.Download(nullptr, 0, nullptr), absl::OkStatus());
  EXPECT_EQ(device.Run(ZeroOp{nullptr, 0}), absl::OkStatus());
  EXPECT_EQ(device.Run(CopyOp{nullptr, 0, 0}), absl::OkStatus());
  EXPECT_EQ(device.Run(AddOp{x + 2, 2, x}), absl::OkStatus());
  EXPECT_EQ(arrays.Read(x, 4), (std::vector<float>{4, 6, 3, 4}));
}

// Checks that nothing runs before a launch, which reads what memory holds by then; that other
// threads' operations are no part of a graph; and that an error is returned.
inline void CheckGraphs(Device& device) {
  constexpr int64_t kNumbers = 1000;
  Arrays arrays(device);
  float* const x = arrays.Place(std::vector<float>(kNumbers, 1.0f));
  float* const y = arrays.Place(std::vector<float>(kNumbers, 0.0f));
  float* const beside = arrays.Place(std::vector<float>(kNumbers, 0.0f));
  std::vector<Operation> operations(3, AddOp{x, kNumbers, y});
  operations.push_back(ZeroOp{x, kNumbers * int64_t{sizeof(float)}});
  std::thread other([&] {
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(device.Run(AddOp{x, kNumbers, beside}), absl::OkStatus());
  });
  const auto graph = device.Capture(operations);
  other.join();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(arrays.Read(y, 1)[0], 0.0f);
  EXPECT_EQ(arrays.Read(beside, 1)[0], 100.0f);
  ASSERT_EQ(device.Launch(**graph), absl::OkStatus());
  const std::vector<float> twos(kNumbers, 2.0f);
  ASSERT_EQ(device.Upload(twos.data(), kNumbers * int64_t{sizeof(float)}, x), absl::OkStatus());
  ASSERT_EQ(device.Launch(**graph), absl::OkStatus());
  EXPECT_TRUE(SameBits(arrays.Read(y, kNumbers), std::vector<float>(kNumbers, 3.0f + 6.0f)));
  EXPECT_EQ(arrays.Read(x, 1)[0], 0.0f);

  operations.front() = RopeOp{{1, 3}, RopePairs::kHalves, x, x, x};
  auto status = device.Capture(operations).status();
  if (status.ok()) status = device.Launch(**device.Capture(operations));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(device.Run(AddOp{y, kNumbers, x}), absl::OkStatus());  // and it goes on
  EXPECT_EQ(arrays.Read(x, 1)[0], 9.0f);
}

inline void CheckThreadsDoNotDisturbEachOther(Device& device) {
  const auto work = [&](uint32_t seed) {
    for (uint32_t n = 0; n < 20; ++n) {
      Arrays arrays(device);
      std::vector<float> x = Normals(1000, 100 * seed + n);
      const float* const on_device = arrays.Place(x);
      float* const sum = arrays.Place(x);
      ASSERT_EQ(device.Run(AddOp{on_device, 1000, sum}), absl::OkStatus());
      for (float& number : x) number *= 2;
      EXPECT_TRUE(SameBits(arrays.Read(sum, 1000), x));
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
}

inline void CheckSaysWhatItIs(Device& device) {
  EXPECT_NE(device.name(), "");
  EXPECT_GE(device.multiprocessors(), 1);
}

struct Check {
  const char* name;
  void (*run)(Device&);
};

inline constexpr Check kChecks[] = {
    {"SaysWhatItIs", CheckSaysWhatItIs},
    {"Gemm", CheckGemm},
    {"MixPointed", CheckMixPointed},
    {"UploadsAndShortLives", CheckUploadsAndShortLives},
    {"UploadsBeside", CheckUploadsBeside},
    {"Graphs", CheckGraphs},
    {"GoesOnAfterErrors", CheckGoesOnAfterErrors},
    {"ThreadsDoNotDisturbEachOther", CheckThreadsDoNotDisturbEachOther},
};

// Returns the suffix of a parameterised test's name.
inline std::string NameOf(const ::testing::TestParamInfo<Check>& info) { return info.param.name; }

}  // namespace recollect::kernels::device_cases
