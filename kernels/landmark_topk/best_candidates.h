// Keeps the n best of candidates that are offered one by one; what searches of keys share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/landmark_topk/landmark_topk.h"

namespace recollect::kernels {

// The order of results: finite scores first, the greater before the smaller, then by candidate.
inline bool BetterCandidate(const ScoredCandidate& a, const ScoredCandidate& b) {
  const bool a_finite = std::isfinite(a.score), b_finite = std::isfinite(b.score);
  if (a_finite != b_finite) return a_finite;
  if (a_finite && a.score != b.score) return a.score > b.score;
  return a.candidate < b.candidate;
}

// The n best seen so far, as a heap with the worst of them first.
class BestCandidates {
 public:
  explicit BestCandidates(int n) : n_(static_cast<size_t>(n)) { heap_.reserve(n_); }
  void Offer(const ScoredCandidate& offered) {
    if (heap_.size() < n_) {
      heap_.push_back(offered);
      std::push_heap(heap_.begin(), heap_.end(), BetterCandidate);
    } else if (n_ > 0 && BetterCandidate(offered, heap_.front())) {
      std::pop_heap(heap_.begin(), heap_.end(), BetterCandidate);
      heap_.back() = offered;
      std::push_heap(heap_.begin(), heap_.end(), BetterCandidate);
    }
  }
  // Candidates come in order, so once the worst kept is finite, an equal or smaller score cannot
  // enter.
  bool MayEnter(float score) const {
    return heap_.size() < n_ || !std::isfinite(heap_.front().score) || score > heap_.front().score;
  }
  // No score below it can enter; minus infinity while any may.
  float least() const {
    const bool full = heap_.size() == n_ && n_ > 0 && std::isfinite(heap_.front().score);
    return full ? heap_.front().score : -std::numeric_limits<float>::infinity();
  }
  std::vector<ScoredCandidate> Sorted() && {
    std::sort(heap_.begin(), heap_.end(), BetterCandidate);
    return std::move(heap_);
  }

 private:
  const size_t n_;
  std::vector<ScoredCandidate> heap_;
};

}  // namespace recollect::kernels
