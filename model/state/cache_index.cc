#include "model/state/cache_index.h"

#include <algorithm>

#include "base/check.h"

namespace recollect::model {

bool CacheIndex::Holds(Part part, int64_t position) const {
  if (part == kInitial) return position < pattern_.initial;
  if (position < pattern_.initial) return false;
  return part == kWindow || (dilated() && (position + 1) % pattern_.dilation == 0);
}

// Entry i of the dilated part is position (i + 1) * D - 1, so that x / D of its entries lie before
// position x.
int64_t CacheIndex::FirstReachable(Part part, int64_t position) const {
  switch (part) {
    case kInitial:
      return 0;
    case kDilated:
      if (!dilated()) return 0;
      return std::max(position - pattern_.span, pattern_.initial) / pattern_.dilation;
    case kWindow:
      return std::max(position - pattern_.window, pattern_.initial);
  }
  return 0;
}

CacheIndex::Firsts CacheIndex::FirstsReachable(int64_t position) const {
  Firsts firsts;
  for (const Part part : kParts) firsts[part] = FirstReachable(part, position);
  return firsts;
}

int64_t CacheIndex::EndIndex(Part part, int64_t length) const {
  switch (part) {
    case kInitial:
      return std::min(length, pattern_.initial);
    case kDilated:
      if (!dilated()) return 0;
      return std::max(length, pattern_.initial) / pattern_.dilation;
    case kWindow:
      return std::max(length, pattern_.initial);
  }
  return 0;
}

kernels::RangeSet CacheIndex::Ranges(int64_t position, const Firsts& firsts) const {
  const int64_t window_begin = FirstReachable(kWindow, position);
  const int64_t dilated_begin = FirstReachable(kDilated, position);
  // Not before its begin: position - W may lie before the initial part's end.
  const int64_t dilated_end =
      dilated() ? std::max(dilated_begin,
                           std::max<int64_t>(position - pattern_.window, 0) / pattern_.dilation)
                : dilated_begin;
  const int64_t window_end = std::max(position + 1, window_begin);
  kernels::RangeSet set;
  set.ranges[kInitial] = {0, std::min(position + 1, pattern_.initial)};
  set.ranges[kDilated] = {dilated_begin - firsts[kDilated], dilated_end - firsts[kDilated]};
  set.ranges[kWindow] = {window_begin - firsts[kWindow], window_end - firsts[kWindow]};
  RECOLLECT_DCHECK(set.ranges[kDilated].begin >= 0 && set.ranges[kWindow].begin >= 0);
  return set;
}

}  // namespace recollect::model
