// Arrays of the host that one call copies to a device together. Private to model/.
//   const int64_t at = tables.Add(std::span<const float>(cosines));
//   RETURN_IF_ERROR(tables.Upload(device, memory));
//   device.Rope(…, tables.At<float>(at), …);
#ifndef RECOLLECT_MODEL_DEVICE_TABLES_H_
#define RECOLLECT_MODEL_DEVICE_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "kernels/device.h"

namespace recollect::model {

class DeviceTables {
 public:
  // Where the array will lie.
  template <typename T>
  int64_t Add(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = (bytes_.size() + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.resize(at + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + at, values.data(), values.size() * sizeof(T));
    return static_cast<int64_t>(at);
  }

  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }
  // To device memory of bytes(); what is added later is not there.
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

// Copies among the tables.
struct CopyTable {
  int64_t at = 0;
  int64_t count = 0;
  int64_t most_bytes = 0;

  static CopyTable Add(DeviceTables& tables, const std::vector<kernels::DeviceCopy>& copies) {
    CopyTable table{tables.Add(copies), static_cast<int64_t>(copies.size()), 0};
    for (const kernels::DeviceCopy& copy : copies) {
      if (copy.bytes > table.most_bytes) table.most_bytes = copy.bytes;
    }
    return table;
  }
  absl::Status Run(kernels::Device& device, const DeviceTables& tables) const {
    if (count == 0) return absl::OkStatus();
    return device.Copy(tables.At<kernels::DeviceCopy>(at), count, most_bytes);
  }
};

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_DEVICE_TABLES_H_
