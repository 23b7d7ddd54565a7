#include "model/text/bpe_merges.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <queue>

namespace recollect::model {
namespace {

// Up to here a scan over all pairs for each merge is faster than a heap.
constexpr size_t kShort = 32;

// A place in a long word; merged-away ones stay, with no bytes.
struct Node {
  BpeSymbol symbol;
  int previous = -1, next = -1;
};

struct Candidate {
  int32_t rank = 0;
  int left = 0;
  int32_t merged = 0;
  int32_t bytes = 0;  // of both: the candidate is void when either has grown since

  // std::priority_queue gives the greatest: the lowest rank, then the leftmost.
  bool operator<(const Candidate& other) const {
    return rank > other.rank || (rank == other.rank && left > other.left);
  }
};

}  // namespace

void BpeMerges::Add(int32_t left, int32_t right, int32_t merged) {
  merges_[{left, right}] = {next_rank_++, merged};
}

BpeMerges::Merge BpeMerges::Find(int32_t left, int32_t right) const {
  const auto found = merges_.find({left, right});
  return found == merges_.end() ? Merge{kNone, 0} : found->second;
}

void BpeMerges::Apply(std::vector<BpeSymbol>& word) const {
  if (word.size() < 2) return;
  if (word.size() <= kShort) {
    ApplyToShort(word);
  } else {
    ApplyToLong(word);
  }
}

void BpeMerges::ApplyToShort(std::vector<BpeSymbol>& word) const {
  std::array<Merge, kShort> pairs;  // pairs[i]: of word[i] and word[i + 1]
  size_t count = word.size() - 1;
  for (size_t i = 0; i < count; ++i) pairs[i] = Find(word[i].id, word[i + 1].id);
  while (count > 0) {
    size_t best = 0;
    for (size_t i = 1; i < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNone) break;
    word[best] = {pairs[best].merged, word[best].bytes + word[best + 1].bytes};
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(pairs.begin() + best + 1, pairs.begin() + count, pairs.begin() + best);
    --count;
    if (best < count) pairs[best] = Find(word[best].id, word[best + 1].id);
    if (best > 0) pairs[best - 1] = Find(word[best - 1].id, word[best].id);
  }
}

void BpeMerges::ApplyToLong(std::vector<BpeSymbol>& word) const {
  const int size = static_cast<int>(word.size());
  std::vector<Node> nodes(word.size());
  const auto node = [&](int i) -> Node& { return nodes[static_cast<size_t>(i)]; };
  std::vector<Candidate> candidates;
  const auto candidate = [&](int left, int right) {
    const BpeSymbol &a = node(left).symbol, &b = node(right).symbol;
    const Merge merge = Find(a.id, b.id);
    return Candidate{merge.rank, left, merge.merged, a.bytes + b.bytes};
  };
  for (int i = 0; i < size; ++i) {
    node(i) = {word[static_cast<size_t>(i)], i - 1, i + 1 < size ? i + 1 : -1};
  }
  for (int i = 0; i + 1 < size; ++i) {
    if (const Candidate c = candidate(i, i + 1); c.rank != kNone) candidates.push_back(c);
  }
  std::priority_queue<Candidate> agenda({}, std::move(candidates));
  const auto consider = [&](int left, int right) {
    if (left < 0 || right < 0) return;
    if (const Candidate c = candidate(left, right); c.rank != kNone) agenda.push(c);
  };
  while (!agenda.empty()) {
    const Candidate top = agenda.top();
    agenda.pop();
    Node& left = node(top.left);
    // Symbols only grow: equal bytes mean the same two. One merged away has none.
    if (left.symbol.bytes == 0 || left.next < 0) continue;
    Node& right = node(left.next);
    if (left.symbol.bytes + right.symbol.bytes != top.bytes) continue;
    left.symbol = {top.merged, top.bytes};
    right.symbol.bytes = 0;
    left.next = right.next;
    if (right.next >= 0) node(right.next).previous = top.left;
    consider(left.previous, top.left);
    consider(top.left, left.next);
  }
  word.clear();
  for (int i = 0; i >= 0; i = node(i).next) word.push_back(node(i).symbol);
}

}  // namespace recollect::model
