#include "model/state/local_cache.h"

#include <algorithm>

#include "base/check.h"

namespace recollect::model {

LocalCache::LocalCache(const LocalPattern& pattern, int first_head, int heads, int head_dim,
                       DType kept)
    : index_(pattern),
      firsts_(index_.FirstsReachable(0)),
      first_head_(first_head),
      heads_(heads),
      width_(static_cast<int64_t>(heads) * head_dim),
      parts_{Part(kept, heads, head_dim), Part(kept, heads, head_dim),
             Part(kept, heads, head_dim)} {}

void LocalCache::Append(const float* keys, const float* values, int64_t rows, int64_t stride) {
  Evict();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t position = length_++;
    const float* key = keys + row * stride;
    const float* value = values + row * stride;
    for (const CacheIndex::Part index : CacheIndex::kParts) {
      if (!index_.Holds(index, position)) continue;
      Part& part = parts_[index];
      part.keys.Append(key);
      part.values.Append(value);
    }
  }
}

// Called before new rows come in: they need what the next position can reach, and nobody asks for
// older rows any more.
void LocalCache::Evict() {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    const int64_t kept = part.keys.entries();
    const int64_t dead = index_.FirstReachable(index, length_) - firsts_[index];
    // Moving the living down costs as much as they are many; waiting until half as many have died
    // makes that a constant cost per append, for half as much memory again.
    if (dead == 0 || dead * 3 < kept) continue;
    part.keys.DropFront(dead);
    part.values.DropFront(dead);
    firsts_[index] += dead;
  }
}

bool LocalCache::CanRewind(int64_t length) const {
  return std::ranges::all_of(CacheIndex::kParts, [&](CacheIndex::Part part) {
    const int64_t first = index_.FirstReachable(part, length);
    return firsts_[part] <= first ||
           first == index_.EndIndex(part, length);  // kept, or none needed
  });
}

void LocalCache::Rewind(int64_t length) {
  RECOLLECT_CHECK(length >= 0 && length <= length_ && CanRewind(length));
  length_ = length;
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    const int64_t end = index_.EndIndex(index, length);
    firsts_[index] = std::min(firsts_[index], end);  // where none of the part's is needed
    const int64_t entries = std::max<int64_t>(end - firsts_[index], 0);
    parts_[index].keys.Truncate(entries);
    parts_[index].values.Truncate(entries);
  }
}

kernels::RangeSet LocalCache::Ranges(int64_t position) const {
  RECOLLECT_DCHECK(position >= 0 && position < length_);
  return index_.Ranges(position, firsts_);
}

std::array<kernels::KvSpan, kernels::kMaxRanges> LocalCache::parts() const {
  std::array<kernels::KvSpan, kernels::kMaxRanges> spans;
  for (size_t i = 0; i < spans.size(); ++i) {
    spans[i] = {parts_[i].keys.floats(), parts_[i].values.floats()};
  }
  return spans;
}

std::array<kernels::Bf16KvSpan, kernels::kMaxRanges> LocalCache::bf16_parts() const {
  std::array<kernels::Bf16KvSpan, kernels::kMaxRanges> spans;
  for (size_t i = 0; i < spans.size(); ++i) {
    const Part& part = parts_[i];
    RECOLLECT_DCHECK(part.keys.head_stride() == part.values.head_stride());
    spans[i] = {part.keys.halves(), part.values.halves(), firsts_[i], part.keys.head_stride()};
  }
  return spans;
}

int64_t LocalCache::bytes() const {
  int64_t total = 0;
  for (const Part& part : parts_) total += part.keys.bytes() + part.values.bytes();
  return total;
}

// Per part the keys, then the values.
void LocalCache::Serialize(std::string& out) const {
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    const Part& part = parts_[index];
    const int64_t dead = index_.FirstReachable(index, length_) - firsts_[index];
    part.keys.Serialize(dead, out);
    part.values.Serialize(dead, out);
  }
}

bool LocalCache::Deserialize(int64_t length, std::string_view& in) {
  length_ = length;
  firsts_ = index_.FirstsReachable(length);
  for (const CacheIndex::Part index : CacheIndex::kParts) {
    Part& part = parts_[index];
    const int64_t entries = std::max<int64_t>(index_.EndIndex(index, length) - firsts_[index], 0);
    if (entries > static_cast<int64_t>(in.size()) / width_) return false;
    if (!part.keys.Deserialize(entries, in) || !part.values.Deserialize(entries, in)) return false;
  }
  return true;
}

}  // namespace recollect::model
