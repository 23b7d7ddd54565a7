// What a layer of RAttention keeps of its sequence: the last W + 1 positions for the window, and
// the sum S of everything before them.
#ifndef RECOLLECT_MODEL_RESIDUAL_CACHE_H_
#define RECOLLECT_MODEL_RESIDUAL_CACHE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/range_attention.h"

namespace recollect::model {

// fp32, [entries, heads, head_dim] in position order: keys as the softmax reads them, keys as they
// were projected, since that is what S takes, and values. A position that leaves the window is to
// be added to S by whoever appends. Dropped some appends at a time, as LocalCache. Not thread-safe.
class ResidualCache {
 public:
  // window >= -1; with -1 there is no softmax and nothing is kept between appends but S.
  ResidualCache(int64_t window, int heads, int head_dim);

  // Appends `rows` positions: placed and raw keys, values, rows `stride` floats apart (raw: dense).
  // `placed` is not read with window -1. Invalidates every pointer handed out.
  void Append(const float* placed, const float* raw, const float* values, int64_t rows,
              int64_t stride);

  // Entries that position `position` attends to, as ranges into parts(). REQUIRES: appended by the
  // latest Append.
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

  // Appends length, entries and S to `out` / reads them from the front of `in`, false when they are
  // cut short. The bytes depend on the sequence alone.
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

#endif  // RECOLLECT_MODEL_RESIDUAL_CACHE_H_
