// Arrays on a device, for tests through kernels/device/device.h.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/numeric/bf16.h"
#include "base/types.h"
#include "kernels/device/device.h"

namespace recollect::kernels::device_cases {

// Device memory that a test holds until the object is destroyed.
class Arrays {
 public:
  explicit Arrays(Device& device) : device_(device) {}
  ~Arrays() {
    for (const Zones& zones : zones_) {
      const std::vector<unsigned char> all = Read(zones.begin, zones.before + zones.bytes + kZone);
      for (int64_t i = 0; i < static_cast<int64_t>(all.size()); ++i) {
        const int64_t at = i - zones.before;
        if ((at >= 0 && at < zones.bytes) || all[static_cast<size_t>(i)] == kGuard) continue;
        ADD_FAILURE() << "written outside, at byte " << at << " of " << zones.bytes;
        break;
      }
    }
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  void* Allocate(int64_t bytes) {
    auto buffer = device_.Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffers_.emplace_back(*std::move(buffer))->data();
  }
  // Places the content in a buffer of its size; with `shift`, that many elements past a multiple of
  // 256 bytes, between zones that must survive.
  template <typename T>
  T* Place(const std::vector<T>& content, size_t shift = 0) {
    const auto bytes = static_cast<int64_t>(content.size() * sizeof(T));
    if (shift == 0) return static_cast<T*>(Upload(content.data(), bytes));
    const auto before = kZone + static_cast<int64_t>(shift * sizeof(T));
    std::vector<unsigned char> all(static_cast<size_t>(before + bytes + kZone), kGuard);
    if (bytes > 0) std::memcpy(all.data() + before, content.data(), static_cast<size_t>(bytes));
    auto* const begin =
        static_cast<unsigned char*>(Upload(all.data(), static_cast<int64_t>(all.size())));
    zones_.push_back({begin, before, bytes});
    return reinterpret_cast<T*>(begin + before);
  }
  // Places numbers in the format `dtype`.
  void* PlaceAs(DType dtype, const std::vector<float>& numbers, size_t shift = 0) {
    if (dtype == DType::kFloat32) return Place(numbers, shift);
    std::vector<Bf16> narrow;
    for (const float number : numbers) narrow.push_back(Bf16::FromFloat(number));
    return Place(narrow, shift);
  }
  template <typename T>
  std::vector<T> Read(const T* place, int64_t count) {
    std::vector<T> content(static_cast<size_t>(count));
    EXPECT_EQ(device_.Download(place, count * int64_t{sizeof(T)}, content.data()),
              absl::OkStatus());
    return content;
  }

 private:
  static constexpr int64_t kZone = 256;
  static constexpr unsigned char kGuard = 0x5a;
  struct Zones {
    const unsigned char* begin;
    int64_t before, bytes;  // of the zone in front, of the array
  };
  void* Upload(const void* content, int64_t bytes) {
    void* const place = Allocate(bytes);
    EXPECT_EQ(device_.Upload(content, bytes, place), absl::OkStatus());
    return place;
  }

  Device& device_;
  std::vector<std::shared_ptr<DeviceBuffer>> buffers_;
  std::vector<Zones> zones_;
};

}  // namespace recollect::kernels::device_cases
