// Computes which entries of a layer's cache a position attends to: the arithmetic of a local
// pattern over three parts, which LocalCache keeps in RAM and DeviceCache on a device (design 2.2).
#pragma once

#include <array>
#include <cstdint>

#include "kernels/range_attention/range_attention.h"
#include "model/config/pattern.h"

namespace recollect::model {

// Each part keeps its entries in position order, numbered from the sequence's beginning on. The
// parts do not overlap: position t attends to initial = p < min(I, t + 1), dilated = p in
// [max(t - C, I), t - W) with (p + 1) mod D = 0, and window = p in [max(t - W, I), t].
class CacheIndex {
 public:
  enum Part { kInitial, kDilated, kWindow };
  static constexpr std::array<Part, kernels::kMaxRanges> kParts = {kInitial, kDilated, kWindow};
  // For each part, the number of the oldest entry that is kept.
  using Firsts = std::array<int64_t, kernels::kMaxRanges>;

  explicit CacheIndex(const LocalPattern& pattern) : pattern_(pattern) {}

  // Whether `position` is an entry of the part.
  bool Holds(Part part, int64_t position) const;
  // The number of the first entry of a part that `position` or a later position attends to.
  int64_t FirstReachable(Part part, int64_t position) const;
  Firsts FirstsReachable(int64_t position) const;
  // Returns the number of a part's last entry, plus one, after `length` positions were appended.
  int64_t EndIndex(Part part, int64_t length) const;
  // The entries that `position` attends to, numbered from `firsts`.
  kernels::RangeSet Ranges(int64_t position, const Firsts& firsts) const;

 private:
  bool dilated() const { return pattern_.dilation != kNoDilation; }

  LocalPattern pattern_;
};

}  // namespace recollect::model
