// The engine with its layers and landmark keys on a GPU: the checks of device_backend_test.cc and
// landmark_index_test.cc.
#include "kernels/cuda/cuda_device.h"

#include <cstdlib>
#include <memory>

#include "engine/backend/device/device_landmarks.h"
#include "tests/engine/backend/device_backend_checks.h"
#include "tests/engine/backend/landmark_index_checks.h"
#include "tests/kernels/cuda/cuda_test_util.h"

namespace recollect::engine {
namespace {

class EngineCudaTest : public kernels::CudaTest {
 protected:
  static std::shared_ptr<kernels::Device> Device() {
    static auto* const kept = new std::shared_ptr<kernels::Device>;
    if (*kept != nullptr && (*kept)->health().ok()) return *kept;
    auto device = kernels::OpenCudaDevice(0);
    EXPECT_TRUE(device.ok()) << device.status();
    if (std::getenv("RECOLLECT_TEST_ONE_DEVICE") != nullptr) *kept = *device;
    return *device;
  }
  static std::shared_ptr<LandmarkIndex> Landmarks() {
    return std::make_shared<DeviceLandmarks>(Device());
  }
};

TEST_F(EngineCudaTest, GeneratesTheSameAsOnTheCpu) {
  backend_checks::TheEngineGeneratesTheSameAsOnTheCpu(Device());
}

TEST_F(EngineCudaTest, PatternsByHeadAreThoseOfTheCpu) {
  backend_checks::PatternsByHeadAreThoseOfTheCpu(Device());
}

TEST_F(EngineCudaTest, TokensAreTheSameAloneTogetherAndCold) {
  backend_checks::TokensAreTheSameAloneTogetherAndCold(Device());
}

TEST_F(EngineCudaTest, ADocumentHasTheSameBytesInAnySlices) {
  backend_checks::ADocumentHasTheSameBytesInAnySlices(Device());
}

TEST_F(EngineCudaTest, BlocksThatEndWithSentencesAreThoseOfTheCpu) {
  backend_checks::BlocksThatEndWithSentencesAreThoseOfTheCpu(Device());
}

TEST_F(EngineCudaTest, AnIngestGoesOnInAnotherEngine) {
  backend_checks::AnIngestGoesOnInAnotherEngine(Device());
}

TEST_F(EngineCudaTest, ABf16ModelHasTheSameBitsInAnyBatchToo) {
  const auto device = Device();
  const auto model = backend_checks::Bf16Model();
  backend_checks::TokensAreTheSameAloneTogetherAndCold(device, model);
  backend_checks::ADocumentHasTheSameBytesInAnySlices(device, model);
  backend_checks::AnIngestGoesOnInAnotherEngine(device, model);
}

TEST_F(EngineCudaTest, FindsWhatTheCpuFinds) {
  landmark_checks::FindsWhatTheCpuFinds(*Landmarks());
}

TEST_F(EngineCudaTest, AQueryHasTheSameBitsAloneAndAmongOthers) {
  landmark_checks::AQueryHasTheSameBitsAloneAndAmongOthers(*Landmarks());
}

TEST_F(EngineCudaTest, WhatADeviceCannotSearchFailsOnlyThatQuery) {
  landmark_checks::WhatADeviceCannotSearchFailsOnlyThatQuery(*Landmarks());
}

TEST_F(EngineCudaTest, GeneratesTheSameWithLandmarkKeysAlone) {
  landmark_checks::TheEngineGeneratesTheSameAsOnTheCpu(Landmarks());
}

TEST_F(EngineCudaTest, MemoryThatRunsOutIsAStatusAndTheDeviceGoesOn) {
  const auto device = Device();
  DeviceLandmarks landmarks(device);
  landmark_checks::FindsWhatTheCpuFinds(landmarks);  // loads its code while there is room
  std::vector<std::shared_ptr<kernels::DeviceBuffer>> taken;
  for (int64_t bytes = int64_t{1} << 36; bytes >= int64_t{16} << 20;) {
    auto more = device->Allocate(bytes);
    if (more.ok()) {
      taken.push_back(*std::move(more));
    } else {
      bytes /= 2;
    }
  }
  const absl::Status status =
      landmarks.Keep(std::vector<Bf16>(size_t{64} << 20)).status();  // 128 MiB
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  taken.clear();
  landmark_checks::FindsWhatTheCpuFinds(landmarks);
}

}  // namespace
}  // namespace recollect::engine
