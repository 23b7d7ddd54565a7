// The merges of a BPE: which two neighbouring tokens become which one, and in what order. Private
// to model/.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace recollect::model {

// A token of a word, and how many bytes of text it stands for.
struct BpeSymbol {
  int32_t id = 0;
  int32_t bytes = 0;
};

// Immutable once filled; thread-safe.
class BpeMerges {
 public:
  // Adds the next merge, which ranks after those before it. Of a pair there twice the last counts,
  // as in the library.
  void Add(int32_t left, int32_t right, int32_t merged);

  // Merges neighbours in `word`, the lowest rank first and of equal ones the leftmost, until no two
  // of them have a merge. A word of n symbols takes O(n log n).
  void Apply(std::vector<BpeSymbol>& word) const;

 private:
  struct Merge {
    int32_t rank, merged;
  };
  static constexpr int32_t kNone = INT32_MAX;

  Merge Find(int32_t left, int32_t right) const;
  void ApplyToShort(std::vector<BpeSymbol>& word) const;
  void ApplyToLong(std::vector<BpeSymbol>& word) const;

  absl::flat_hash_map<std::pair<int32_t, int32_t>, Merge> merges_;
  int32_t next_rank_ = 0;
};

}  // namespace recollect::model
