// Arrays of the host laid one after the other, as they go to a device in one copy.
//   const PackedArrays packed(arrays);
//   packed.Copy(begin, end, pinned);   // bytes [begin, end) of the layout
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/numeric/round_up.h"

namespace recollect::kernels {

// Borrows the arrays and their memory. Thread-compatible.
class PackedArrays {
 public:
  static constexpr int64_t kAlignment = 256;  // of where each array begins

  explicit PackedArrays(std::span<const std::span<const std::byte>> arrays) : arrays_(arrays) {
    for (const std::span<const std::byte> array : arrays) {
      bytes_ = RoundUp(bytes_, kAlignment);
      offsets_.push_back(bytes_);
      bytes_ += std::ssize(array);
    }
  }

  int64_t bytes() const { return bytes_; }
  int64_t offset(size_t array) const { return offsets_[array]; }

  // Writes bytes [begin, end) of the layout to `to`; those between arrays stay as they are there.
  void Copy(int64_t begin, int64_t end, std::byte* to) const {
    const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), begin);
    for (auto i = static_cast<size_t>(std::max<int64_t>(after - offsets_.begin() - 1, 0));
         i < arrays_.size() && offsets_[i] < end; ++i) {
      const int64_t first = std::max(begin, offsets_[i]);
      const int64_t last = std::min(end, offsets_[i] + std::ssize(arrays_[i]));
      if (first >= last) continue;
      std::memcpy(to + (first - begin), arrays_[i].data() + (first - offsets_[i]),
                  static_cast<size_t>(last - first));
    }
  }

 private:
  const std::span<const std::span<const std::byte>> arrays_;
  std::vector<int64_t> offsets_;
  int64_t bytes_ = 0;
};

}  // namespace recollect::kernels
