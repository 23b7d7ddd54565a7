// Helpers of the CUDA tests: a fixture that skips, loudly, where there is no device, and device
// memory between guard zones.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels {

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess) << cudaGetErrorString(cudaPeekAtLastError())

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "NOT TESTED: no CUDA device (" << cudaGetErrorString(error) << ")";
    }
  }

  static int Multiprocessors() {
    int count = 0;
    EXPECT_CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
    return count;
  }
};

// A copy of `content` in device memory, `shift` elements past a multiple of 256 bytes, between
// zones that must survive until the array is destroyed.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& content, size_t shift = 0)
      : before_(kZone + shift * sizeof(T)), bytes_(content.size() * sizeof(T)) {
    EXPECT_CUDA(cudaMalloc(&memory_, before_ + bytes_ + kZone));
    EXPECT_CUDA(cudaMemset(memory_, kGuard, before_ + bytes_ + kZone));
    if (bytes_ > 0) {
      EXPECT_CUDA(cudaMemcpy(data(), content.data(), bytes_, cudaMemcpyHostToDevice));
    }
  }
  ~DeviceArray() {
    std::vector<unsigned char> all(before_ + bytes_ + kZone);
    EXPECT_CUDA(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < all.size(); ++i) {
      if (i >= before_ && i < before_ + bytes_) continue;
      if (all[i] == kGuard) continue;
      ADD_FAILURE() << "written outside, at byte " << static_cast<int64_t>(i - before_) << " of "
                    << bytes_;
      break;
    }
    EXPECT_CUDA(cudaFree(memory_));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return reinterpret_cast<T*>(static_cast<char*>(memory_) + before_); }
  // Waits for the device's work, then copies the content to the host.
  std::vector<T> Download() const {
    EXPECT_CUDA(cudaDeviceSynchronize());
    std::vector<T> content(bytes_ / sizeof(T));
    if (bytes_ > 0) {
      EXPECT_CUDA(cudaMemcpy(content.data(), data(), bytes_, cudaMemcpyDeviceToHost));
    }
    return content;
  }

 private:
  static constexpr size_t kZone = 256;
  static constexpr unsigned char kGuard = 0x5a;
  void* memory_ = nullptr;
  size_t before_;
  size_t bytes_;
};

inline std::vector<float> Nans(int64_t count) { return std::vector<float>(count, std::nanf("")); }

}  // namespace recollect::kernels
