#include <algorithm>

#include "kernels/sparse_topk/sparse_range.h"

namespace recollect::kernels {

// Takes the lists of a range one by one, which is much faster than to look at the rows again.
class SparseRange::Spreader {
 public:
  Spreader(const SparseRange& from, int64_t before, int64_t after, std::span<const uint8_t> weights,
           SparseRange& to)
      : from_(from), before_(before), weights_(weights), to_(to) {
    to_.blocks_ = from.blocks_ - before - after;
  }

  void Run() {
    std::vector<int32_t> words(from_.words_.size() + from_.everywhere_.size());
    std::merge(from_.words_.begin(), from_.words_.end(), from_.everywhere_.begin(),
               from_.everywhere_.end(), words.begin());
    size_t entries = 0, everywhere = 0;
    for (const int32_t word : words) {
      int64_t count = 0;
      ForEachNear(BlocksOf(from_.list(word)), [&](int64_t, uint8_t) { ++count; });
      if (count == 0) continue;
      const bool all = count * kEntryBytes > to_.blocks_;
      (all ? to_.everywhere_ : to_.words_).push_back(word);
      if (!all) to_.begins_.push_back(static_cast<uint32_t>(entries));
      (all ? everywhere : entries) += static_cast<size_t>(all ? to_.blocks_ : count);
    }
    to_.begins_.push_back(static_cast<uint32_t>(entries));
    to_.entries_.reserve(entries);
    to_.weights_.reserve(entries);
    to_.all_weights_.resize(everywhere);
    Write();
    to_.ShrinkWords();
  }

 private:
  // The blocks of the word's entries, in order.
  std::span<const uint16_t> BlocksOf(const SparseList& list) {
    if (list.blocks != nullptr) return {list.blocks, static_cast<size_t>(list.count)};
    blocks_.clear();
    for (int64_t block = 0; block < list.count; ++block) {
      if (list.weights[block] > 0) blocks_.push_back(static_cast<uint16_t>(block));
    }
    return blocks_;
  }

  // write(block, weight) for each block of the new range near one of `blocks`, in order.
  template <typename Write>
  void ForEachNear(std::span<const uint16_t> blocks, const Write& write) const {
    const int64_t reach = std::ssize(weights_) - 1;
    int64_t next = before_;  // block that is not written yet, in the numbers of the old range
    for (size_t i = 0; i < blocks.size(); ++i) {
      const int64_t here = blocks[i];
      const int64_t after = i + 1 < blocks.size() ? blocks[i + 1] : here + 2 * reach + 2;
      const int64_t end = std::min({here + reach + 1, after, before_ + to_.blocks_});
      for (int64_t at = std::max(here - reach, next); at < end; ++at) {
        const int64_t away = at < here ? here - at : std::min(at - here, after - at);
        write(at - before_, weights_[static_cast<size_t>(away)]);
      }
      next = std::max(next, end);
    }
  }

  void Write() {
    for (const int32_t word : to_.words_) {
      ForEachNear(BlocksOf(from_.list(word)), [&](int64_t block, uint8_t weight) {
        to_.entries_.push_back(static_cast<uint16_t>(block));
        to_.weights_.push_back(weight);
      });
    }
    uint8_t* weights = to_.all_weights_.data();
    for (const int32_t word : to_.everywhere_) {
      ForEachNear(BlocksOf(from_.list(word)),
                  [&](int64_t block, uint8_t weight) { weights[block] = weight; });
      weights += to_.blocks_;
    }
  }

  const SparseRange& from_;
  const int64_t before_;
  const std::span<const uint8_t> weights_;
  SparseRange& to_;
  std::vector<uint16_t> blocks_;
};

SparseRange SparseRange::Spread(int64_t before, int64_t after,
                                std::span<const uint8_t> weights) const {
  SparseRange range;
  Spreader(*this, before, after, weights, range).Run();
  return range;
}

}  // namespace recollect::kernels
