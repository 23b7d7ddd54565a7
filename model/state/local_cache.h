// Keys and values of some heads of a layer that share one local pattern, for the positions that the
// pattern can still reach (design 2.2).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/types.h"
#include "kernels/range_attention/range_attention.h"
#include "model/config/pattern.h"
#include "model/state/cache_index.h"
#include "model/state/entry_list.h"

namespace recollect::model {

// Positions are appended in order. Each part of CacheIndex keeps its entries, in fp32, or in bf16
// where they are rounded to it (entry_list.h has the layouts); keys are kept after recurrence and
// RoPE. Entries that no later position can reach are dropped, several appends at a time: the window
// is a ring in all but layout, and the dilated part grows without end only if the span is
// unbounded. Not thread-safe.
class LocalCache {
 public:
  // Holds heads first_head .. first_head + heads - 1 of its layer.
  LocalCache(const LocalPattern& pattern, int first_head, int heads, int head_dim,
             DType kept = DType::kFloat32);

  // Appends `rows` positions following those already there. keys, values: [rows, heads, head_dim],
  // rows `stride` floats apart. Invalidates parts().
  void Append(const float* keys, const float* values, int64_t rows, int64_t stride);

  // The entries that `position` attends to, as ranges into parts(). REQUIRES: `position` was
  // appended by the latest Append; entries that only earlier positions can reach may have been
  // dropped.
  kernels::RangeSet Ranges(int64_t position) const;
  // The keys and values of a cache in fp32, and of one in bf16.
  std::array<kernels::KvSpan, kernels::kMaxRanges> parts() const;
  std::array<kernels::Bf16KvSpan, kernels::kMaxRanges> bf16_parts() const;
  bool bf16() const { return parts_[0].keys.bf16(); }

  // Whether everything that position `length` can reach is still kept, so that Rewind(length) is
  // possible. 0 <= length <= length().
  bool CanRewind(int64_t length) const;
  // Forgets the positions from `length` on. REQUIRES: CanRewind(length). Invalidates parts().
  void Rewind(int64_t length);

  int first_head() const { return first_head_; }
  int heads() const { return heads_; }
  int64_t length() const { return length_; }  // positions appended so far
  int64_t bytes() const;

  // Serialize appends the entries to `out`; Deserialize reads those of a cache of `length`
  // positions from the front of `in`, and returns false when they are cut short. The number of
  // entries follows from the pattern and the length, and only those that the next position can
  // reach are written, so the bytes depend on the sequence alone.
  void Serialize(std::string& out) const;
  bool Deserialize(int64_t length, std::string_view& in);

 private:
  struct Part {
    Part(DType kept, int heads, int head_dim)
        : keys(kept, heads, head_dim), values(kept, heads, head_dim) {}
    EntryList keys, values;
  };
  void Evict();

  CacheIndex index_;
  CacheIndex::Firsts firsts_;
  int first_head_ = 0;
  int heads_ = 0;
  int64_t width_ = 0;  // heads * head_dim
  int64_t length_ = 0;
  std::array<Part, kernels::kMaxRanges> parts_;
};

}  // namespace recollect::model
