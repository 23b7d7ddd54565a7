// Keys and values of every position of a layer, for sequences whose queries choose blocks
// (BlockChoice), and the bounds by which a query scores a block.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/pattern.h"
#include "model/state/local_cache.h"

namespace recollect::model {

// Entries are fp32, [length, heads, head_dim]: entry t is position t. Not thread-safe.
class BlockCache {
 public:
  // `patterns`: one for all heads, or one for each.
  BlockCache(const HeadPatterns& patterns, int heads, int head_dim, const BlockChoice& choice);

  // As LocalCache::Append.
  void Append(const float* keys, const float* values, int64_t rows, int64_t stride);

  const BlockChoice& choice() const { return choice_; }
  int64_t length() const { return entries_.length(); }
  int64_t bytes() const;
  kernels::KvSpan entries() const { return entries_.parts()[CacheIndex::kWindow]; }
  // [whole blocks, heads, head_dim]: the two inputs of kernels::BlockScores. A block gets its row
  // once all its positions are appended; the row does not change afterwards.
  const float* low() const { return low_.data(); }
  const float* high() const { return high_.data(); }

  // Positions that `head` attends to at `position`, ascending, each once: those of its pattern, of
  // its own block and of the blocks `chosen` (ascending, whole, before its own).
  void Positions(int head, int64_t position, std::span<const int64_t> chosen,
                 std::vector<int64_t>& positions) const;

  // As LocalCache's.
  void Serialize(std::string& out) const { entries_.Serialize(out); }
  bool Deserialize(int64_t length, std::string_view& in);

 private:
  void SumUpWholeBlocks();

  HeadPatterns patterns_;
  BlockChoice choice_;
  int64_t width_ = 0;  // heads * head_dim
  LocalCache entries_;
  std::vector<float> low_, high_;
};

}  // namespace recollect::model
