#include "kernels/device/device.h"

#include <gmock/gmock.h>

#include "tests/kernels/device/device_checks.h"
#include "tests/kernels/device/host_device.h"

namespace recollect::kernels {
namespace {

using ::testing::HasSubstr;

class HostDeviceTest : public ::testing::TestWithParam<device_cases::Check> {};

TEST_P(HostDeviceTest, DoesWhatADeviceDoes) {
  HostDevice device;
  GetParam().run(device);
  EXPECT_EQ(device.buffers(), 0);
  EXPECT_EQ(device.bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Checks, HostDeviceTest, ::testing::ValuesIn(device_cases::kChecks),
                         device_cases::NameOf);

TEST(HostDeviceMemoryTest, RunsOutAndGoesOn) {
  HostDevice device;
  device.LimitBytes(1000);
  auto first = device.Allocate(600);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(device.buffers(), 1);
  EXPECT_EQ(device.bytes(), 600);
  const absl::Status refused = device.Allocate(401).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("401 bytes of device memory, 600 are used"));
  EXPECT_TRUE(device.Allocate(400).ok());
  first->reset();
  EXPECT_EQ(device.bytes(), 0);
  EXPECT_TRUE(device.Allocate(1000).ok());
}

TEST(HostDeviceMemoryTest, IsNotANumberBeforeItIsWritten) {
  HostDevice device;
  const auto buffer = *device.Allocate(8);
  float numbers[2];
  ASSERT_EQ(device.Download(buffer->data(), 8, numbers), absl::OkStatus());
  EXPECT_TRUE(std::isnan(numbers[0]) && std::isnan(numbers[1]));
}

TEST(HostDeviceMemoryTest, HoldsNothingThatComesBesideBeforeSomebodyWaits) {
  HostDevice device;
  const float sent = 5;
  const auto coming = *device.UploadAsync(&sent, sizeof(sent));
  float came;
  ASSERT_EQ(device.Download(coming->data(), sizeof(came), &came), absl::OkStatus());
  EXPECT_TRUE(std::isnan(came));
  ASSERT_EQ(device.Await(*coming), absl::OkStatus());
  ASSERT_EQ(device.Download(coming->data(), sizeof(came), &came), absl::OkStatus());
  EXPECT_EQ(came, sent);
}

TEST(HostDeviceMemoryTest, OutlivesTheDevice) {
  std::shared_ptr<DeviceBuffer> buffer;
  {
    HostDevice device;
    buffer = *device.Allocate(100);
  }
  std::memset(buffer->data(), 0, 100);
}

TEST(HostDeviceLossTest, SaysUnavailableFromTheCallOnThatLostIt) {
  HostDevice device;
  const auto buffer = *device.Allocate(4);
  device.LoseAfter(1);
  EXPECT_EQ(device.Run(ZeroOp{buffer->data(), 4}), absl::OkStatus());
  const absl::Status lost = device.Run(ZeroOp{buffer->data(), 4});
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device.Allocate(4).status(), lost);
  EXPECT_EQ(device.PrepareGemm({.n = 1, .k = 1}), lost);
}

TEST(DeviceHealthTest, AskedNoMoreOnceLost) {
  DeviceHealth health;
  EXPECT_EQ(health.Run([] { return absl::OkStatus(); }), absl::OkStatus());
  const absl::Status wrong = absl::InvalidArgumentError("wrong"),
                     lost = absl::UnavailableError("1");
  EXPECT_EQ(health.Run([&] { return wrong; }), wrong);
  EXPECT_EQ(health.Run([] { return absl::OkStatus(); }), absl::OkStatus());
  // Two calls side by side: both say what the first one said.
  EXPECT_EQ(health.Run([&] {
    EXPECT_EQ(health.Run([&] { return lost; }), lost);
    return absl::UnavailableError("2");
  }),
            lost);
  bool asked = false;
  EXPECT_EQ(health.Run([&] {
    asked = true;
    return absl::OkStatus();
  }),
            lost);
  EXPECT_FALSE(asked);
}

}  // namespace
}  // namespace recollect::kernels
