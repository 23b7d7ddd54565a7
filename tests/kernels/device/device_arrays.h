// Arrays on a device, for tests through kernels/device/device.h.
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_ARRAYS_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_ARRAYS_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/device/device.h"

namespace recollect::kernels::device_cases {

// What a test keeps on a device until the object goes.
class Arrays {
 public:
  explicit Arrays(Device& device) : device_(device) {}
  void* Allocate(int64_t bytes) {
    auto buffer = device_.Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffers_.emplace_back(*std::move(buffer))->data();
  }
  template <typename T>
  T* Place(const std::vector<T>& content) {
    const auto bytes = static_cast<int64_t>(content.size() * sizeof(T));
    T* const place = static_cast<T*>(Allocate(bytes));
    EXPECT_EQ(device_.Upload(content.data(), bytes, place), absl::OkStatus());
    return place;
  }
  template <typename T>
  std::vector<T> Read(const T* place, int64_t count) {
    std::vector<T> content(static_cast<size_t>(count));
    EXPECT_EQ(device_.Download(place, count * int64_t{sizeof(T)}, content.data()),
              absl::OkStatus());
    return content;
  }

 private:
  Device& device_;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers_;
};

}  // namespace recollect::kernels::device_cases

#endif  // RECOLLECT_TESTS_KERNELS_DEVICE_DEVICE_ARRAYS_H_
