// Keys or values of a cache's entries in position order, in fp32 or in bf16. Private to
// model/state.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numeric/bf16.h"
#include "base/types.h"
#include "model/state/state_bytes.h"

namespace recollect::model {

// An entry is [heads, head_dim] numbers. In fp32 entries follow each other. In bf16 the entries of
// a head do, since a step reads one head after the other, and memory gives what lies together 2.6
// times as fast (docs/decisions/0075-a-head-after-the-other.md). In bf16 it takes only numbers that
// are bf16 already, so that both formats give back the same ones. Not thread-safe.
class EntryList {
 public:
  EntryList(DType kept, int heads, int head_dim)
      : bf16_(kept == DType::kBf16), heads_(heads), head_dim_(head_dim) {}

  void Append(const float* entry) {
    if (entries_ == capacity_) Grow();
    if (bf16_) {
      for (int64_t h = 0; h < heads_; ++h) {
        Bf16* to = halves_.data() + (h * capacity_ + entries_) * head_dim_;
        // The upper halves are the numbers: there is nothing to round.
        for (int64_t d = 0; d < head_dim_; ++d) {
          to[d].bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(*entry++) >> 16);
        }
      }
    } else {
      floats_.insert(floats_.end(), entry, entry + heads_ * head_dim_);
    }
    ++entries_;
  }
  // Keeps the first `count` entries. REQUIRES: there are as many.
  void Truncate(int64_t count) {
    entries_ = count;
    if (!bf16_) floats_.resize(static_cast<size_t>(count * heads_ * head_dim_));
  }
  void DropFront(int64_t count) {
    if (!bf16_) floats_.erase(floats_.begin(), floats_.begin() + count * heads_ * head_dim_);
    for (int64_t h = 0; bf16_ && h < heads_; ++h) {
      const auto head = halves_.begin() + h * head_stride();
      std::copy(head + count * head_dim_, head + entries_ * head_dim_, head);
    }
    entries_ -= count;
  }

  bool bf16() const { return bf16_; }
  int64_t entries() const { return entries_; }
  int64_t bytes() const {
    return static_cast<int64_t>(floats_.capacity() * sizeof(float) +
                                halves_.capacity() * sizeof(Bf16));
  }
  // Each REQUIRES its format. In bf16 the next head begins head_stride() numbers further.
  const float* floats() const { return floats_.data(); }
  const Bf16* halves() const { return halves_.data(); }
  int64_t head_stride() const { return capacity_ * head_dim_; }

  // As entries in fp32, so that states of both formats are the same bytes. Serialize writes the
  // entries from `from` on; Deserialize reads `count`, and returns false when there are fewer.
  void Serialize(int64_t from, std::string& out) const {
    const int64_t width = heads_ * head_dim_;
    if (!bf16_) {
      const int64_t count = (entries_ - from) * width;
      return PutFloats(out, floats_.data() + from * width, static_cast<size_t>(count));
    }
    for (int64_t entry = from; entry < entries_; ++entry) {
      for (int64_t h = 0; h < heads_; ++h) {
        const Bf16* numbers = halves_.data() + (h * capacity_ + entry) * head_dim_;
        for (int64_t d = 0; d < head_dim_; ++d) Put(out, numbers[d].ToFloat());
      }
    }
  }
  bool Deserialize(int64_t count, std::string_view& in) {
    const int64_t width = heads_ * head_dim_;
    std::vector<float> floats;
    if (!GetFloats(in, floats, static_cast<size_t>(count * width))) return false;
    Truncate(0);
    if (bf16_) {
      for (float& number : floats) number = Bf16::FromFloat(number).ToFloat();
      for (int64_t entry = 0; entry < count; ++entry) Append(floats.data() + entry * width);
    } else {
      floats_ = std::move(floats);
      entries_ = capacity_ = count;
    }
    return true;
  }

 private:
  // Doubling, as vectors do, would make a long session's cache half empty.
  void Grow() {
    const int64_t grown = std::max(entries_ + 1, entries_ * 5 / 4);
    if (bf16_) {
      std::vector<Bf16> halves(static_cast<size_t>(heads_ * grown * head_dim_));
      for (int64_t h = 0; h < heads_; ++h) {
        std::copy_n(halves_.begin() + h * head_stride(), entries_ * head_dim_,
                    halves.begin() + h * grown * head_dim_);
      }
      halves_.swap(halves);
    } else {
      floats_.reserve(static_cast<size_t>(grown * heads_ * head_dim_));
    }
    capacity_ = grown;
  }

  bool bf16_;
  int64_t heads_, head_dim_;
  int64_t entries_ = 0, capacity_ = 0;
  std::vector<float> floats_;  // [entries, heads, head_dim]
  std::vector<Bf16> halves_;   // [heads, capacity, head_dim]
};

}  // namespace recollect::model
