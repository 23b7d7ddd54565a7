#include "model/state/residual_cache.h"

#include <algorithm>

#include "base/check.h"
#include "model/state/state_bytes.h"

namespace recollect::model {

ResidualCache::ResidualCache(int64_t window, int heads, int head_dim)
    : window_(window),
      heads_(heads),
      width_(static_cast<int64_t>(heads) * head_dim),
      sum_(static_cast<size_t>(2 * width_ * head_dim)) {
  RECOLLECT_CHECK(window >= -1);
}

// Position `length` attends to length - W and later, and length - W - 1 enters S before it reads.
int64_t ResidualCache::FirstNeeded() const { return std::max<int64_t>(length_ - window_ - 1, 0); }

// As LocalCache: moving the living down waits until half as many have died.
void ResidualCache::Evict() {
  const int64_t kept = static_cast<int64_t>(raw_.size()) / width_;
  const int64_t dead = FirstNeeded() - first_;
  if (dead == 0 || dead * 3 < kept) return;
  for (std::vector<float>* part : {&placed_, &raw_, &values_}) {
    if (!part->empty()) part->erase(part->begin(), part->begin() + dead * width_);
  }
  first_ += dead;
}

void ResidualCache::Append(const float* placed, const float* raw, const float* values, int64_t rows,
                           int64_t stride) {
  Evict();
  raw_.insert(raw_.end(), raw, raw + rows * width_);
  for (int64_t row = 0; row < rows; ++row) {
    const float* value = values + row * stride;
    values_.insert(values_.end(), value, value + width_);
    if (window_ < 0) continue;
    const float* key = placed + row * stride;
    placed_.insert(placed_.end(), key, key + width_);
  }
  length_ += rows;
}

kernels::RangeSet ResidualCache::Ranges(int64_t position) const {
  RECOLLECT_DCHECK(window_ >= 0 && position < length_);
  kernels::RangeSet set;
  set.ranges[0] = {std::max<int64_t>(position - window_, 0) - first_, position + 1 - first_};
  RECOLLECT_DCHECK(set.ranges[0].begin >= 0);
  return set;
}

std::array<kernels::KvSpan, kernels::kMaxRanges> ResidualCache::parts() const {
  return {kernels::KvSpan{placed_.data(), values_.data()}};
}

ResidualCache::Leaving ResidualCache::LeftBy(int64_t rows) const {
  const int64_t count = std::min(rows, FirstNeeded());
  const int64_t from = (FirstNeeded() - count - first_) * width_;
  RECOLLECT_DCHECK(from >= 0);
  return {raw_.data() + from, values_.data() + from, count};
}

int64_t ResidualCache::bytes() const {
  return static_cast<int64_t>(
      (placed_.capacity() + raw_.capacity() + values_.capacity() + sum_.capacity()) *
      sizeof(float));
}

void ResidualCache::Serialize(std::string& out) const {
  Put(out, length_);
  const size_t from = static_cast<size_t>((FirstNeeded() - first_) * width_);
  for (const std::vector<float>* part : {&placed_, &raw_, &values_}) {
    if (!part->empty()) PutFloats(out, part->data() + from, part->size() - from);
  }
  PutFloats(out, sum_.data(), sum_.size());
}

bool ResidualCache::Deserialize(std::string_view& in) {
  if (!Get(in, length_) || length_ < 0) return false;
  first_ = FirstNeeded();
  const int64_t entries = length_ - first_;
  if (entries > static_cast<int64_t>(in.size()) / width_) return false;
  const auto floats = static_cast<size_t>(entries * width_);
  return GetFloats(in, placed_, window_ < 0 ? 0 : floats) && GetFloats(in, raw_, floats) &&
         GetFloats(in, values_, floats) && GetFloats(in, sum_, sum_.size());
}

}  // namespace recollect::model
