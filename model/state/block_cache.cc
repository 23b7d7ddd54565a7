#include "model/state/block_cache.h"

#include <algorithm>

#include "base/check.h"

namespace recollect::model {

BlockCache::BlockCache(const HeadPatterns& patterns, int heads, int head_dim,
                       const BlockChoice& choice)
    : patterns_(patterns),
      choice_(choice),
      width_(static_cast<int64_t>(heads) * head_dim),
      entries_({.window = kUnboundedSpan, .dilation = kNoDilation}, 0, heads, head_dim) {
  RECOLLECT_CHECK(choice.count > 0 && choice.block > 0);
}

void BlockCache::Append(const float* keys, const float* values, int64_t rows, int64_t stride) {
  entries_.Append(keys, values, rows, stride);
  SumUpWholeBlocks();
}

// Always over a whole block at once, in order, so that no cut of the sequence changes a bit.
void BlockCache::SumUpWholeBlocks() {
  const int64_t done = static_cast<int64_t>(low_.size()) / width_;
  for (int64_t block = done; block < length() / choice_.block; ++block) {
    const float* first = entries().keys + block * choice_.block * width_;
    std::vector<float> low(first, first + width_), high = low;
    for (int64_t row = 1; row < choice_.block; ++row) {
      const float* key = first + row * width_;
      for (size_t i = 0; i < low.size(); ++i) {
        if (choice_.score == BlockScore::kQuest) {
          low[i] = std::min(low[i], key[i]);
          high[i] = std::max(high[i], key[i]);
        } else {
          low[i] += key[i];
        }
      }
    }
    if (choice_.score == BlockScore::kMoba) {
      for (float& sum : low) sum /= static_cast<float>(choice_.block);
      high = low;
    }
    low_.insert(low_.end(), low.begin(), low.end());
    high_.insert(high_.end(), high.begin(), high.end());
  }
}

void BlockCache::Positions(int head, int64_t position, std::span<const int64_t> chosen,
                           std::vector<int64_t>& positions) const {
  const LocalPattern& pattern = patterns_[patterns_.size() == 1 ? 0 : static_cast<size_t>(head)];
  const int64_t size = choice_.block, own = position / size;
  positions.clear();
  // Block by block: all of a chosen one; of another what the pattern sees of it. The window and the
  // initial positions are ranges, the dilated ones every D-th.
  const int64_t window = position - pattern.window;
  size_t next = 0;
  for (int64_t block = 0; block <= own; ++block) {
    const int64_t begin = block * size, end = std::min(begin + size, position + 1);
    const bool is_chosen = next < chosen.size() && chosen[next] == block;
    if (is_chosen) ++next;
    if (is_chosen || block == own) {
      for (int64_t p = begin; p < end; ++p) positions.push_back(p);
      continue;
    }
    int64_t p = begin;
    for (; p < end && p < pattern.initial; ++p) positions.push_back(p);
    if (pattern.dilation != kNoDilation) {
      const int64_t dilated_end = std::min(end, window);
      const int64_t from = std::max(p, position - pattern.span);
      // The first at or after that with (position + 1) mod D = 0.
      int64_t d = (from + pattern.dilation) / pattern.dilation * pattern.dilation - 1;
      for (; d < dilated_end; d += pattern.dilation) positions.push_back(d);
    }
    for (p = std::max(p, window); p < end; ++p) positions.push_back(p);
  }
}

int64_t BlockCache::bytes() const {
  return entries_.bytes() +
         static_cast<int64_t>((low_.capacity() + high_.capacity()) * sizeof(float));
}

bool BlockCache::Deserialize(int64_t length, std::string_view& in) {
  if (!entries_.Deserialize(length, in)) return false;
  low_.clear();
  high_.clear();
  SumUpWholeBlocks();
  return true;
}

}  // namespace recollect::model
