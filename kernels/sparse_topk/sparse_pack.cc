#include "kernels/sparse_topk/sparse_range.h"

namespace recollect::kernels {

// Numbers of four bytes first, then those of two and of one: each is where its type may be.
std::vector<std::byte> SparseRange::Pack() const {
  std::vector<std::byte> packed;
  packed.reserve(static_cast<size_t>(bytes()));
  const auto add = [&](const auto& numbers) {
    const auto added = std::as_bytes(std::span(numbers));
    packed.insert(packed.end(), added.begin(), added.end());
  };
  add(words_);
  add(begins_);
  add(scales_);
  add(everywhere_);
  add(entries_);
  add(weights_);
  add(all_weights_);
  return packed;
}

SparseLists SparseRange::PackedAt(const void* memory) const {
  const auto* at = static_cast<const std::byte*>(memory);
  const auto next = [&]<typename T>(const std::vector<T>& numbers) {
    const auto* const here = reinterpret_cast<const T*>(at);
    at += numbers.size() * sizeof(T);
    return here;
  };
  SparseLists lists;
  lists.words = next(words_);
  lists.begins = next(begins_);
  lists.scales = scales_.empty() ? nullptr : next(scales_);
  lists.everywhere = next(everywhere_);
  lists.entries = next(entries_);
  lists.weights = next(weights_);
  lists.all_weights = next(all_weights_);
  lists.word_count = static_cast<int32_t>(words_.size());
  lists.everywhere_count = static_cast<int32_t>(everywhere_.size());
  lists.blocks = static_cast<int32_t>(blocks_);
  return lists;
}

}  // namespace recollect::kernels
