// The checks of device_backend_test.cc on a GPU.
#include <memory>

#include "kernels/cuda_device.h"
#include "tests/engine/device_backend_checks.h"
#include "tests/kernels/cuda_test_util.h"

namespace recollect::engine {
namespace {

class CudaBackendTest : public kernels::CudaTest {
 protected:
  static std::shared_ptr<kernels::Device> Device() {
    auto device = kernels::OpenCudaDevice(0);
    EXPECT_TRUE(device.ok()) << device.status();
    return *device;
  }
};

TEST_F(CudaBackendTest, TheEngineGeneratesTheSameAsOnTheCpu) {
  backend_checks::TheEngineGeneratesTheSameAsOnTheCpu(Device());
}

TEST_F(CudaBackendTest, PatternsByHeadAreThoseOfTheCpu) {
  backend_checks::PatternsByHeadAreThoseOfTheCpu(Device());
}

TEST_F(CudaBackendTest, TokensAreTheSameAloneTogetherAndCold) {
  backend_checks::TokensAreTheSameAloneTogetherAndCold(Device());
}

TEST_F(CudaBackendTest, ADocumentHasTheSameBytesInAnySlices) {
  backend_checks::ADocumentHasTheSameBytesInAnySlices(Device());
}

TEST_F(CudaBackendTest, AnIngestGoesOnInAnotherEngine) {
  backend_checks::AnIngestGoesOnInAnotherEngine(Device());
}

}  // namespace
}  // namespace recollect::engine
