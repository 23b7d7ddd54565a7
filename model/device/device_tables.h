// Host arrays that one call copies to a device together. Private to model/.
//   const int64_t at = tables.Add(std::span<const float>(cosines));
//   RETURN_IF_ERROR(tables.Upload(device, memory));
//   device.Run(kernels::RopeOp{.cosines = tables.At<float>(at), …});
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "base/numeric/round_up.h"
#include "kernels/device/device.h"

namespace recollect::model {

class DeviceTables {
 public:
  // Adds an array; returns its offset.
  template <typename T>
  int64_t Add(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = RoundUp(bytes_.size(), kAlignment);
    bytes_.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(T));
    return static_cast<int64_t>(at);
  }

  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }
  // Copies the tables to `memory`, which has bytes() bytes on the device. Arrays added later are
  // not copied.
  absl::Status Upload(kernels::Device& device, void* memory) {
    base_ = static_cast<std::byte*>(memory);
    return bytes_.empty() ? absl::OkStatus() : device.Upload(bytes_.data(), bytes(), memory);
  }
  template <typename T>
  const T* At(int64_t at) const {
    return reinterpret_cast<const T*>(base_ + at);
  }

 private:
  static constexpr size_t kAlignment = 16;

  std::vector<std::byte> bytes_;
  std::byte* base_ = nullptr;
};

// Rounds up a size that changes from step to step to one that seldom changes, so that a step
// consists of the same launches as the one before and runs as the same graph. The result is at most
// `most`, or `size` if that is more.
inline int64_t RoundedSize(int64_t size, int64_t most = int64_t{1} << 40) {
  const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size)));
  return std::max(size, std::min(rounded, most));
}

// Copies in the tables, padded with empty copies to a rounded number.
struct CopyTable {
  int64_t at = 0;
  int64_t count = 0;
  int64_t most_bytes = 0;

  static CopyTable Add(DeviceTables& tables, std::vector<kernels::DeviceCopy> copies) {
    CopyTable table;
    for (const kernels::DeviceCopy& copy : copies) {
      table.most_bytes = std::max(table.most_bytes, copy.bytes);
    }
    if (!copies.empty()) copies.resize(static_cast<size_t>(RoundedSize(std::ssize(copies))));
    table.count = std::ssize(copies);
    table.at = tables.Add(copies);
    return table;
  }
  absl::Status Run(kernels::Device& device, const DeviceTables& tables) const {
    if (count == 0) return absl::OkStatus();
    return device.Run(kernels::CopyOp{tables.At<kernels::DeviceCopy>(at), count, most_bytes});
  }
};

}  // namespace recollect::model
