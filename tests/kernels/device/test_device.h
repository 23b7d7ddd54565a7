// The device that a test runs on when any will do: the host, running the thread blocks of the CUDA
// operations, or, in a program that is built with RECOLLECT_TEST_ON_CUDA, the GPU. Such a program
// has the main of cuda_test_main.cc.
//   void SetUp() override { RECOLLECT_SKIP_WITHOUT(device_); }
//   const std::shared_ptr<kernels::Device> device_ = kernels::OpenTestDevice();
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#ifdef RECOLLECT_TEST_ON_CUDA
#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_device.h"
#else
#include "tests/kernels/device/host_device.h"
#endif

#define RECOLLECT_SKIP_WITHOUT(device)                                     \
  do {                                                                     \
    if ((device) == nullptr) GTEST_SKIP() << "NOT TESTED: no CUDA device"; \
  } while (false)

namespace recollect::kernels {

// Null: there is none. One that does not open fails the test. With RECOLLECT_TEST_ONE_DEVICE in the
// environment all tests of a process have the same one, which chooses its products once.
inline std::shared_ptr<Device> OpenTestDevice() {
#ifdef RECOLLECT_TEST_ON_CUDA
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return nullptr;
  static auto* const kept = new std::shared_ptr<Device>;
  if (*kept != nullptr && (*kept)->health().ok()) return *kept;
  auto device = OpenCudaDevice(0);
  EXPECT_TRUE(device.ok()) << device.status();
  if (!device.ok()) return nullptr;
  if (std::getenv("RECOLLECT_TEST_ONE_DEVICE") != nullptr) *kept = *device;
  return *std::move(device);
#else
  return std::make_shared<HostDevice>();
#endif
}

class OnTestDevice : public ::testing::Test {
 protected:
  void SetUp() override { RECOLLECT_SKIP_WITHOUT(opened_); }
  Device& device() const { return *opened_; }

 private:
  const std::shared_ptr<Device> opened_ = OpenTestDevice();
};

}  // namespace recollect::kernels
