// Numbers of a cache's entries in position order, in fp32 or in bf16. Private to model/state.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/numeric/bf16.h"
#include "base/types.h"
#include "model/state/state_bytes.h"

namespace recollect::model {

// In bf16 it takes only numbers that are bf16 already, so that both formats give back the same
// ones. Not thread-safe.
class EntryList {
 public:
  explicit EntryList(DType kept) : bf16_(kept == DType::kBf16) {}

  void Append(const float* numbers, int64_t count) {
    if (!bf16_) {
      Reserve(floats_, count);
      floats_.insert(floats_.end(), numbers, numbers + count);
      return;
    }
    // The upper halves are the numbers: there is nothing to round.
    Bf16* to = Grow(count);
    for (int64_t i = 0; i < count; ++i) {
      to[i].bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(numbers[i]) >> 16);
    }
  }
  // Keeps the first `count` numbers. REQUIRES: there are as many.
  void Truncate(int64_t count) {
    bf16_ ? halves_.resize(static_cast<size_t>(count)) : floats_.resize(static_cast<size_t>(count));
  }
  void DropFront(int64_t count) { bf16_ ? Drop(halves_, count) : Drop(floats_, count); }

  bool bf16() const { return bf16_; }
  int64_t size() const { return bf16_ ? std::ssize(halves_) : std::ssize(floats_); }
  int64_t bytes() const {
    return static_cast<int64_t>(floats_.capacity() * sizeof(float) +
                                halves_.capacity() * sizeof(Bf16));
  }
  // Each REQUIRES its format.
  const float* floats() const { return floats_.data(); }
  const Bf16* halves() const { return halves_.data(); }

  // As fp32, so that states of both formats are the same bytes. Serialize writes the numbers from
  // `from` on; Deserialize reads `count`, and returns false when there are fewer.
  void Serialize(int64_t from, std::string& out) const {
    if (!bf16_) return PutFloats(out, floats_.data() + from, floats_.size() - from);
    for (size_t i = static_cast<size_t>(from); i < halves_.size(); ++i) {
      Put(out, halves_[i].ToFloat());
    }
  }
  bool Deserialize(int64_t count, std::string_view& in) {
    if (!bf16_) return GetFloats(in, floats_, static_cast<size_t>(count));
    std::vector<float> floats;
    if (!GetFloats(in, floats, static_cast<size_t>(count))) return false;
    halves_.clear();
    std::transform(floats.begin(), floats.end(), Grow(count), Bf16::FromFloat);
    return true;
  }

 private:
  // Returns the first of `count` more numbers in bf16.
  Bf16* Grow(int64_t count) {
    Reserve(halves_, count);
    halves_.resize(halves_.size() + static_cast<size_t>(count));
    return halves_.data() + halves_.size() - count;
  }
  // Doubling, as vectors do, would make a long session's cache half empty. Copies instead of
  // vector's reserve, which moves numbers in bf16 one by one: their constructor is not trivial.
  template <typename T>
  static void Reserve(std::vector<T>& numbers, int64_t more) {
    const size_t size = numbers.size() + static_cast<size_t>(more);
    if (size <= numbers.capacity()) return;
    std::vector<T> grown;
    grown.reserve(std::max(size, numbers.size() * 5 / 4));
    grown.resize(numbers.size());
    std::copy(numbers.begin(), numbers.end(), grown.begin());
    numbers.swap(grown);
  }
  template <typename T>
  static void Drop(std::vector<T>& numbers, int64_t count) {
    numbers.erase(numbers.begin(), numbers.begin() + count);
  }

  bool bf16_;
  std::vector<float> floats_;
  std::vector<Bf16> halves_;
};

}  // namespace recollect::model
