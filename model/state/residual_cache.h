// The cache of a layer of RAttention: the last W + 1 positions for the window, and the sum S of
// everything before them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/range_attention/range_attention.h"

namespace recollect::model {

// Entries are fp32, [entries, heads, head_dim] in position order: placed keys, which the softmax
// reads; raw keys as projected, which enter S; and values. The caller of Append adds positions that
// leave the window to S. Entries are dropped several appends at a time, as in LocalCache. Not
// thread-safe.
class ResidualCache {
 public:
  // window >= -1; with -1 there is no softmax, and only S is kept between appends.
  ResidualCache(int64_t window, int heads, int head_dim);

  // Appends `rows` positions: placed and raw keys, values, rows `stride` floats apart (raw: dense).
  // `placed` is not read with window -1. Invalidates every pointer handed out.
  void Append(const float* placed, const float* raw, const float* values, int64_t rows,
              int64_t stride);

  // The entries that `position` attends to, as ranges into parts(). REQUIRES: `position` was
  // appended by the latest Append.
  kernels::RangeSet Ranges(int64_t position) const;
  std::array<kernels::KvSpan, kernels::kMaxRanges> parts() const;

  // Positions that left the window during the latest Append of `rows` rows, one each for the last
  // `count` rows: raw keys and values [count, heads, head_dim].
  struct Leaving {
    const float* raw = nullptr;
    const float* values = nullptr;
    int64_t count = 0;
  };
  Leaving LeftBy(int64_t rows) const;

  float* sum() { return sum_.data(); }  // S [heads, 2 head_dim, head_dim]
  int64_t sum_bytes() const { return std::ssize(sum_) * static_cast<int64_t>(sizeof(float)); }
  int64_t window() const { return window_; }
  int heads() const { return heads_; }
  int64_t length() const { return length_; }  // positions appended so far
  int64_t bytes() const;

  // Serialize appends length, entries and S to `out`; Deserialize reads them from the front of
  // `in`, and returns false when they are cut short. The bytes depend on the sequence alone.
  void Serialize(std::string& out) const;
  bool Deserialize(std::string_view& in);

 private:
  // Position of the first entry that the next position still needs.
  int64_t FirstNeeded() const;
  void Evict();

  int64_t window_;
  int heads_;
  int64_t width_;  // heads * head_dim
  int64_t length_ = 0;
  int64_t first_ = 0;  // position of the oldest entry kept
  std::vector<float> placed_, raw_, values_, sum_;
};

}  // namespace recollect::model
