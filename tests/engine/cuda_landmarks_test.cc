#include "engine/cuda_landmarks.h"

#include <memory>

#include "tests/engine/landmark_device_checks.h"
#include "tests/kernels/cuda_test_util.h"

namespace recollect::engine {
namespace {

class CudaLandmarksTest : public kernels::CudaTest {
 protected:
  static std::shared_ptr<LandmarkDevice> Device() {
    auto device = OpenCudaLandmarks(0);
    EXPECT_TRUE(device.ok()) << device.status();
    return *device;
  }
};

TEST_F(CudaLandmarksTest, FindsWhatTheCpuFinds) {
  landmark_checks::FindsWhatTheCpuFinds(*Device());
}

TEST_F(CudaLandmarksTest, AQueryHasTheSameBitsAloneAndAmongOthers) {
  landmark_checks::AQueryHasTheSameBitsAloneAndAmongOthers(*Device());
}

TEST_F(CudaLandmarksTest, WhatADeviceCannotSearchFailsOnlyThatQuery) {
  landmark_checks::WhatADeviceCannotSearchFailsOnlyThatQuery(*Device());
}

TEST_F(CudaLandmarksTest, TheEngineGeneratesTheSameAsOnTheCpu) {
  landmark_checks::TheEngineGeneratesTheSameAsOnTheCpu(Device());
}

TEST_F(CudaLandmarksTest, MemoryThatRunsOutIsAStatusAndTheDeviceGoesOn) {
  const auto device = Device();
  // 2 GiB at a time, until there is no more.
  const std::vector<Bf16> keys(size_t{1} << 30);
  std::vector<std::unique_ptr<LandmarkKeys>> kept;
  absl::Status status;
  while (status.ok() && kept.size() < 1000) {
    auto more = device->Keep(keys);
    status = more.status();
    if (more.ok()) kept.push_back(*std::move(more));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  kept.clear();
  landmark_checks::FindsWhatTheCpuFinds(*device);
}

TEST_F(CudaLandmarksTest, ADeviceThatIsNotThereIsAStatus) {
  EXPECT_EQ(OpenCudaLandmarks(99).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recollect::engine
