// Landmark keys on another device than the CPU: its layout of a search, and the engine over it. The
// device is the host, running the thread blocks of the CUDA kernels.
#include "engine/backend/landmark_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/device/device_landmarks.h"
#include "tests/engine/backend/landmark_index_checks.h"
#include "tests/kernels/device/host_device.h"

namespace recollect::engine {
namespace {

using kernels::HostDevice;
using landmark_checks::Ask;
using landmark_checks::On;
using landmark_checks::WithDocuments;
using ::testing::HasSubstr;

TEST(LandmarkIndexTest, FindsWhatTheCpuFinds) {
  const auto device = std::make_shared<HostDevice>();
  DeviceLandmarks landmarks(device);
  landmark_checks::FindsWhatTheCpuFinds(landmarks);
  EXPECT_EQ(device->downloads(), 1) << "one trip to the device for all";
}

TEST(LandmarkIndexTest, AQueryHasTheSameBitsAloneAndAmongOthers) {
  DeviceLandmarks landmarks(std::make_shared<HostDevice>());
  landmark_checks::AQueryHasTheSameBitsAloneAndAmongOthers(landmarks);
}

TEST(LandmarkIndexTest, WhatADeviceCannotSearchFailsOnlyThatQuery) {
  DeviceLandmarks landmarks(std::make_shared<HostDevice>());
  landmark_checks::WhatADeviceCannotSearchFailsOnlyThatQuery(landmarks);
}

TEST(LandmarkIndexTest, TheEngineGeneratesTheSameAsOnTheCpu) {
  const auto device = std::make_shared<HostDevice>();
  landmark_checks::TheEngineGeneratesTheSameAsOnTheCpu(std::make_shared<DeviceLandmarks>(device));
  EXPECT_GT(device->downloads(), 0);
}

// The device is smaller than the budget: keys that nobody has mounted go.
TEST(LandmarkIndexTest, UnpinnedDocumentsMakeRoom) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = WithDocuments(On(std::make_shared<DeviceLandmarks>(device)));
  const SessionId first = *engine->OpenSession({.mounts = {"a"}});
  const int64_t of_a = engine->stats().landmark_bytes;
  EXPECT_EQ(MakeEngine()->stats().device_total_bytes, 0) << "no device";
  device->LimitBytes(device->bytes() + 10);
  EXPECT_EQ(engine->stats().device_free_bytes, 10);
  EXPECT_EQ(engine->stats().device_total_bytes, device->bytes() + 10);
  EXPECT_EQ(engine->OpenSession({.mounts = {"b"}}).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(engine->CloseSession(first).ok());
  AwaitBackground(*engine);
  EXPECT_EQ(engine->OpenSession({.mounts = {"b"}}).status(), absl::OkStatus());
  EXPECT_LT(engine->stats().landmark_bytes, of_a);
}

// Fails when told to.
class Faulty final : public LandmarkIndex {
 public:
  explicit Faulty(LandmarkIndex& to) : to_(to) {}
  std::string name() const override { return "faulty"; }
  absl::StatusOr<std::unique_ptr<LandmarkKeys>> Keep(std::vector<Bf16> keys) override {
    if (full) return absl::ResourceExhaustedError("640 bytes of device memory: out of memory");
    return to_.Keep(std::move(keys));
  }
  void Search(std::span<LandmarkQuery> queries) override {
    to_.Search(queries);
    if (!lost) return;
    for (LandmarkQuery& query : queries) query.status = absl::UnavailableError("device lost");
  }

  std::atomic<bool> full{false}, lost{false};

 private:
  LandmarkIndex& to_;
};

TEST(LandmarkIndexTest, TheEngineIsAsHealthyAsItsLandmarks) {
  const auto device = std::make_shared<HostDevice>();
  const auto engine = WithDocuments(On(std::make_shared<DeviceLandmarks>(device)));
  EXPECT_EQ(engine->health(), absl::OkStatus());
  device->LoseAfter(0);
  EXPECT_EQ(Generate(*engine, Ask()).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->health().code(), absl::StatusCode::kUnavailable);
}

TEST(LandmarkIndexTest, FullAndLostDevicesAreStatusesAndTheEngineGoesOn) {
  DeviceLandmarks landmarks(std::make_shared<HostDevice>());
  const auto faulty = std::make_shared<Faulty>(landmarks);
  const auto engine = WithDocuments(On(faulty));
  faulty->full = true;
  const absl::Status full = engine->OpenSession({.mounts = {"a"}}).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("document \"a\": 640 bytes of device memory"));
  EXPECT_EQ(engine->stats().landmark_bytes, 0);
  faulty->full = false;

  const Generated before = Generate(*engine, Ask());
  EXPECT_EQ(before.status, absl::OkStatus());
  faulty->lost = true;
  EXPECT_EQ(Generate(*engine, Ask()).status.code(), absl::StatusCode::kUnavailable);
  faulty->full = true;  // a session's own chunk
  faulty->lost = false;
  const absl::Status own = Generate(*engine, TokensRequest(SampleTokens(100, 8), 1)).status;
  EXPECT_EQ(own.code(), absl::StatusCode::kResourceExhausted) << own;
  faulty->full = false;
  const Generated after = Generate(*engine, Ask());
  EXPECT_EQ(after.status, absl::OkStatus());
  EXPECT_EQ(after.tokens, before.tokens);
}

}  // namespace
}  // namespace recollect::engine
