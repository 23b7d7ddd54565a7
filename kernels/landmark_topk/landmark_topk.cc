#include "kernels/landmark_topk/landmark_topk.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
namespace reference {
decltype(kernels::LandmarkScores) LandmarkScores;
}  // namespace reference
namespace avx2 {
decltype(kernels::LandmarkScores) LandmarkScores;
}  // namespace avx2
namespace avx512 {
decltype(kernels::LandmarkScores) LandmarkScores;
}  // namespace avx512

namespace {

constexpr int kSlotScores = kFirstKernelSlot + 7;
// Keys scored before their scores are looked at: few enough that the scores stay in the first-level
// cache.
constexpr int64_t kBatch = 1024;

bool Better(const ScoredCandidate& a, const ScoredCandidate& b) {
  const bool a_finite = std::isfinite(a.score), b_finite = std::isfinite(b.score);
  if (a_finite != b_finite) return a_finite;
  if (a_finite && a.score != b.score) return a.score > b.score;
  return a.candidate < b.candidate;
}

// The n best seen so far, as a heap with the worst of them first.
class Best {
 public:
  explicit Best(int n) : n_(static_cast<size_t>(n)) { heap_.reserve(n_); }
  void Offer(const ScoredCandidate& offered) {
    if (heap_.size() < n_) {
      heap_.push_back(offered);
      std::push_heap(heap_.begin(), heap_.end(), Better);
    } else if (n_ > 0 && Better(offered, heap_.front())) {
      std::pop_heap(heap_.begin(), heap_.end(), Better);
      heap_.back() = offered;
      std::push_heap(heap_.begin(), heap_.end(), Better);
    }
  }
  // Candidates come in order, so once the worst kept is finite, an equal or smaller score cannot
  // enter.
  bool MayEnter(float score) const {
    return heap_.size() < n_ || !std::isfinite(heap_.front().score) || score > heap_.front().score;
  }
  std::vector<ScoredCandidate> Sorted() && {
    std::sort(heap_.begin(), heap_.end(), Better);
    return std::move(heap_);
  }

 private:
  const size_t n_;
  std::vector<ScoredCandidate> heap_;
};

}  // namespace

void LandmarkScores(OpContext& ctx, const float* query, int64_t width, const Bf16* keys,
                    int64_t count, float* scores) {
  Select<reference::LandmarkScores, avx2::LandmarkScores, avx512::LandmarkScores>(ctx)(
      ctx, query, width, keys, count, scores);
}

std::vector<ScoredCandidate> LandmarkTopK(OpContext& ctx, std::span<const float> query,
                                          std::span<const KeySegment> segments, int n) {
  if (n <= 0) return {};
  const auto width = static_cast<int64_t>(query.size());
  float* scores = ctx.Floats(kSlotScores, kBatch);
  int64_t total = 0;
  for (const KeySegment& segment : segments) total += segment.count;
  Best best(static_cast<int>(std::min<int64_t>(n, total)));
  int64_t candidate = 0;
  for (const KeySegment& segment : segments) {
    for (int64_t first = 0; first < segment.count; first += kBatch) {
      const int64_t count = std::min(kBatch, segment.count - first);
      LandmarkScores(ctx, query.data(), width, segment.keys + first * width, count, scores);
      for (int64_t i = 0; i < count; ++i, ++candidate) {
        if (best.MayEnter(scores[i])) best.Offer({candidate, scores[i]});
      }
    }
  }
  return std::move(best).Sorted();
}

std::vector<ScoredCandidate> MergeTopK(std::span<const std::vector<ScoredCandidate>> parts, int n) {
  std::vector<ScoredCandidate> all;
  for (const std::vector<ScoredCandidate>& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end(), Better);
  if (static_cast<int64_t>(all.size()) > n) all.resize(static_cast<size_t>(std::max(n, 0)));
  return all;
}

}  // namespace recollect::kernels
