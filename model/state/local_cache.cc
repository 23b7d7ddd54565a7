#include "model/state/local_cache.h"

#include <algorithm>

#include "base/check.h"
#include "model/state/state_bytes.h"

namespace recollect::model {

LocalCache::LocalCache(const LocalPattern& pattern, int first_head, int heads, int head_dim)
    : index_(pattern),
      firsts_(index_.FirstsReachable(0)),
      first_head_(first_head),
      heads_(heads),
      width_(static_cast<int64_t>(heads) * head_dim) {}

void LocalCache::Append(const float* keys, const float* values, int64_t rows, int64_t stride) {
  Evict();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t position = length_++;
    const float* key = keys + row * stride;
    const float* value = values + row * stride;
    for (const CacheIndex::Part index : CacheIndex::kParts) {
      if (!index_.Holds(index, position)) continue;
      Part& part = parts_[index];
      part.keys.insert(part.keys.end(), key, key + width_);
      part.values.insert(part.values.end(), value, value + width_);
    }
  }
}

// Called before new rows come in: they need what the next position can reach, and nobody asks for
// older rows any more.
void LocalCache::Evict() {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    const int64_t kept = static_cast<int64_t>(part.keys.size()) / width_;
    const int64_t dead = index_.FirstReachable(index, length_) - firsts_[index];
    // Moving the living down costs as much as they are many; waiting until half as many have died
    // makes that a constant cost per append, for half as much memory again.
    if (dead == 0 || dead * 3 < kept) continue;
    part.keys.erase(part.keys.begin(), part.keys.begin() + dead * width_);
    part.values.erase(part.values.begin(), part.values.begin() + dead * width_);
    firsts_[index] += dead;
  }
}

kernels::RangeSet LocalCache::Ranges(int64_t position) const {
  RECOLLECT_DCHECK(position >= 0 && position < length_);
  return index_.Ranges(position, firsts_);
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
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    const Part& part = parts_[index];
    const int64_t dead = index_.FirstReachable(index, length_) - firsts_[index];
    const auto from = static_cast<size_t>(dead * width_);
    PutFloats(out, part.keys.data() + from, part.keys.size() - from);
    PutFloats(out, part.values.data() + from, part.values.size() - from);
  }
}

bool LocalCache::Deserialize(int64_t length, std::string_view& in) {
  length_ = length;
  firsts_ = index_.FirstsReachable(length);
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    const int64_t entries = std::max<int64_t>(index_.EndIndex(index, length) - firsts_[index], 0);
    if (entries > static_cast<int64_t>(in.size()) / width_) return false;
    const auto floats = static_cast<size_t>(entries * width_);
    if (!GetFloats(in, part.keys, floats) || !GetFloats(in, part.values, floats)) return false;
  }
  return true;
}

}  // namespace recollect::model
