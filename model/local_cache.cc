#include "model/local_cache.h"

#include <algorithm>

#include "base/check.h"
#include "model/state_bytes.h"

namespace recollect::model {

LocalCache::LocalCache(const LocalPattern& pattern, int first_head, int heads, int head_dim)
    : pattern_(pattern),
      first_head_(first_head),
      heads_(heads),
      width_(static_cast<int64_t>(heads) * head_dim) {
  for (const PartIndex part : {kInitial, kDilated, kWindow}) {
    parts_[part].first = FirstReachable(part, 0);
  }
}

// Entry i of the dilated part is position (i + 1) * D - 1, so that x / D of its entries lie before
// position x.
int64_t LocalCache::FirstReachable(PartIndex part, int64_t position) const {
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

int64_t LocalCache::EndIndex(PartIndex part, int64_t length) const {
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

void LocalCache::Append(const float* keys, const float* values, int64_t rows, int64_t stride) {
  Evict();
  const auto add = [&](PartIndex part, int64_t row) {
    const float* key = keys + row * stride;
    const float* value = values + row * stride;
    parts_[part].keys.insert(parts_[part].keys.end(), key, key + width_);
    parts_[part].values.insert(parts_[part].values.end(), value, value + width_);
  };
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t position = length_++;
    if (position < pattern_.initial) {
      add(kInitial, row);
      continue;
    }
    add(kWindow, row);
    if (dilated() && (position + 1) % pattern_.dilation == 0) add(kDilated, row);
  }
}

// Called before new rows come in: they need what the next position can reach, and nobody asks for
// older rows any more.
void LocalCache::Evict() {
  for (const PartIndex index : {kDilated, kWindow}) {
    Part& part = parts_[index];
    const int64_t kept = static_cast<int64_t>(part.keys.size()) / width_;
    const int64_t dead = FirstReachable(index, length_) - part.first;
    // Moving the living down costs as much as they are many; waiting until half as many have died
    // makes that a constant cost per append, for half as much memory again.
    if (dead == 0 || dead * 3 < kept) continue;
    part.keys.erase(part.keys.begin(), part.keys.begin() + dead * width_);
    part.values.erase(part.values.begin(), part.values.begin() + dead * width_);
    part.first += dead;
  }
}

kernels::RangeSet LocalCache::Ranges(int64_t position) const {
  RECOLLECT_DCHECK(position >= 0 && position < length_);
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
  set.ranges[kDilated] = {dilated_begin - parts_[kDilated].first,
                          dilated_end - parts_[kDilated].first};
  set.ranges[kWindow] = {window_begin - parts_[kWindow].first, window_end - parts_[kWindow].first};
  RECOLLECT_DCHECK(set.ranges[kDilated].begin >= 0 && set.ranges[kWindow].begin >= 0);
  return set;
}

std::array<kernels::KvSpan, kernels::kMaxRanges> LocalCache::parts() const {
  std::array<kernels::KvSpan, kernels::kMaxRanges> spans;
  for (size_t i = 0; i < spans.size(); ++i) {
    spans[i] = {parts_[i].keys.data(), parts_[i].values.data()};
  }
  return spans;
}

int64_t LocalCache::bytes() const {
  size_t floats = 0;
  for (const Part& part : parts_) floats += part.keys.capacity() + part.values.capacity();
  return static_cast<int64_t>(floats * sizeof(float));
}

// Per part the keys, then the values.
void LocalCache::Serialize(std::string& out) const {
  for (const PartIndex index : {kInitial, kDilated, kWindow}) {
    const Part& part = parts_[index];
    const size_t from = static_cast<size_t>((FirstReachable(index, length_) - part.first) * width_);
    PutFloats(out, part.keys.data() + from, part.keys.size() - from);
    PutFloats(out, part.values.data() + from, part.values.size() - from);
  }
}

bool LocalCache::Deserialize(int64_t length, std::string_view& in) {
  length_ = length;
  for (const PartIndex index : {kInitial, kDilated, kWindow}) {
    Part& part = parts_[index];
    part.first = FirstReachable(index, length_);
    const int64_t entries = std::max<int64_t>(EndIndex(index, length_) - part.first, 0);
    if (entries > static_cast<int64_t>(in.size()) / width_) return false;
    const size_t floats = static_cast<size_t>(entries * width_);
    if (!GetFloats(in, part.keys, floats) || !GetFloats(in, part.values, floats)) return false;
  }
  return true;
}

}  // namespace recollect::model
