#include "kernels/landmark_topk/landmark_topk.h"

#include <algorithm>
#include <cmath>

#include "kernels/landmark_topk/best_candidates.h"
#include "kernels/landmark_topk/landmark_sketch.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(LandmarkScores)
RECOLLECT_CPU_OP_CODE(LandmarkScoresAt)

namespace {

constexpr ScratchName kScores, kBounds;
// Keys scored before their scores are looked at: few enough that the scores stay in the first-level
// cache.
constexpr int64_t kBatch = 1024;
static_assert(kBatch % kSketchBlock == 0);
// A key alone takes as long to read as so many in a row: where more than that part is left by
// bounds, all are scored.
constexpr int64_t kInARow = 4;

// One search: first bounds of all keys that have some, and from the best of them a floor; then, in
// the order of candidates, the scores of all keys that no bound rules out.
class Searching {
 public:
  Searching(OpContext& ctx, std::span<const float> query, std::span<const KeySegment> segments,
            int n, SearchFloor* floor)
      : ctx_(ctx),
        query_(query),
        width_(static_cast<int64_t>(query.size())),
        segments_(segments),
        n_(n),
        floor_(floor),
        best_(n),
        scores_(ctx.Floats(kScores, kBatch)) {}

  std::vector<ScoredCandidate> Run() && {
    FindBounds();
    int64_t first = 0, bounds = 0;
    for (const KeySegment& segment : segments_) {
      if (segment.sketch == nullptr) {
        ScoreAll(segment, first);
      } else {
        ScoreSome(segment, first, bounds_ + bounds);
        bounds += BoundsOf(segment);
      }
      first += segment.count;
    }
    return std::move(best_).Sorted();
  }

 private:
  static int64_t FirstBlock(const KeySegment& segment) {
    return segment.sketch_first / kSketchBlock;
  }
  // Of whole blocks.
  static int64_t BoundsOf(const KeySegment& segment) {
    const int64_t end = segment.sketch_first + segment.count;
    return ((end + kSketchBlock - 1) / kSketchBlock - FirstBlock(segment)) * kSketchBlock;
  }

  void FindBounds() {
    int64_t total = 0;
    for (const KeySegment& segment : segments_) {
      if (segment.sketch != nullptr) total += BoundsOf(segment);
    }
    if (total == 0) return;
    bounds_ = ctx_.Floats(kBounds, total);
    BestCandidates most(n_);                       // by bound, numbered by place in bounds_
    const LandmarkSketch* prepared_for = nullptr;  // segments of one sketch follow one another
    SketchQuery prepared;
    int64_t begin = 0;
    for (const KeySegment& segment : segments_) {
      if (segment.sketch == nullptr) continue;
      if (segment.sketch != prepared_for) prepared = segment.sketch->Prepare(ctx_, query_);
      prepared_for = segment.sketch;
      const int64_t count = BoundsOf(segment);
      const int64_t before = segment.sketch_first % kSketchBlock, end = before + segment.count;
      for (int64_t at = 0; at < count; at += kBatch) {
        const int64_t some = std::min(kBatch, count - at);
        const int64_t first = FirstBlock(segment) + at / kSketchBlock, blocks = some / kSketchBlock;
        float* bounds = bounds_ + begin + at;
        const int32_t* sums = segment.sums == nullptr ? sums_ : segment.sums + first * kSketchBlock;
        if (segment.sums == nullptr) {
          const SketchSums query{prepared.coarse.data(), sums_};
          segment.sketch->Sum(ctx_, {&query, 1}, first, blocks);
        }
        segment.sketch->Bounds(ctx_, prepared, sums, first, blocks, bounds);
        const int64_t skipped = std::max<int64_t>(before - at, 0);
        const int64_t found = BoundsNotBelow(
            ctx_, bounds + skipped, std::min(some, end - at) - skipped, most.least(), places_);
        for (int64_t i = 0; i < found; ++i) {
          const int64_t place = at + skipped + places_[i];
          most.Offer({begin + place, bounds_[begin + place]});
        }
      }
      begin += count;
    }
    Seed(std::move(most).Sorted());
  }

  // The floor: the least score of the n keys with the greatest bounds.
  void Seed(const std::vector<ScoredCandidate>& most) {
    if (std::ssize(most) < n_) return;
    float least = std::numeric_limits<float>::infinity();
    for (const ScoredCandidate& seed : most) {
      int64_t place = seed.candidate;
      for (const KeySegment& segment : segments_) {
        if (segment.sketch == nullptr) continue;
        if (place >= BoundsOf(segment)) {
          place -= BoundsOf(segment);
          continue;
        }
        place -= segment.sketch_first % kSketchBlock;
        LandmarkScoresAt(ctx_, query_.data(), width_, segment.keys, &place, 1, scores_);
        if (!std::isfinite(scores_[0])) return;
        least = std::min(least, scores_[0]);
        break;
      }
    }
    Raise(least);
  }

  void ScoreAll(const KeySegment& segment, int64_t first) {
    for (int64_t begin = 0; begin < segment.count; begin += kBatch) {
      const int64_t count = std::min(kBatch, segment.count - begin);
      LandmarkScores(ctx_, query_.data(), width_, segment.keys + begin * width_, count, scores_);
      for (int64_t i = 0; i < count; ++i) {
        if (best_.MayEnter(scores_[i])) best_.Offer({first + begin + i, scores_[i]});
      }
    }
    Raise(best_.least());
  }

  void ScoreSome(const KeySegment& segment, int64_t first, const float* bounds) {
    bounds += segment.sketch_first % kSketchBlock;
    for (int64_t begin = 0; begin < segment.count; begin += kBatch) {
      const int64_t count = std::min(kBatch, segment.count - begin);
      const Bf16* const keys = segment.keys + begin * width_;
      const int64_t found = BoundsNotBelow(ctx_, bounds + begin, count, least_, places_);
      const bool all = found * kInARow > count;
      if (all) {
        LandmarkScores(ctx_, query_.data(), width_, keys, count, scores_);
      } else {
        for (int64_t i = 0; i < found; ++i) Fetch(keys + places_[i] * width_);
        LandmarkScoresAt(ctx_, query_.data(), width_, keys, places_, found, scores_);
      }
      for (int64_t i = 0; i < found; ++i) {
        const float score = scores_[all ? places_[i] : i];
        if (best_.MayEnter(score)) best_.Offer({first + begin + places_[i], score});
      }
      Raise(best_.least());
    }
  }

  void Fetch(const Bf16* key) const {
    const auto* begin = reinterpret_cast<const char*>(key);
    for (int64_t byte = 0; byte < width_ * static_cast<int64_t>(sizeof(Bf16)); byte += 64) {
      __builtin_prefetch(begin + byte);
    }
  }

  // n candidates score at least `score`.
  void Raise(float score) {
    least_ = std::max(least_, score);
    if (floor_ == nullptr) return;
    float others = floor_->score.load(std::memory_order_relaxed);
    while (others < least_ && !floor_->score.compare_exchange_weak(others, least_)) {
    }
    least_ = std::max(least_, others);
  }

  OpContext& ctx_;
  const std::span<const float> query_;
  const int64_t width_;
  const std::span<const KeySegment> segments_;
  const int n_;
  SearchFloor* const floor_;
  BestCandidates best_;
  float least_ = -std::numeric_limits<float>::infinity();
  float* const scores_;
  float* bounds_ = nullptr;
  int32_t sums_[kBatch];
  int64_t places_[kBatch];
};

}  // namespace

std::vector<ScoredCandidate> LandmarkTopK(OpContext& ctx, std::span<const float> query,
                                          std::span<const KeySegment> segments, int n,
                                          SearchFloor* floor) {
  if (n <= 0) return {};
  int64_t total = 0;
  for (const KeySegment& segment : segments) total += segment.count;
  // Of fewer than n candidates none is left out, and they say nothing of others.
  const bool enough = n <= total;
  return Searching(ctx, query, segments, enough ? n : static_cast<int>(total),
                   enough ? floor : nullptr)
      .Run();
}

std::vector<ScoredCandidate> MergeTopK(std::span<const std::vector<ScoredCandidate>> parts, int n) {
  std::vector<ScoredCandidate> all;
  for (const std::vector<ScoredCandidate>& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end(), BetterCandidate);
  if (static_cast<int64_t>(all.size()) > n) all.resize(static_cast<size_t>(std::max(n, 0)));
  return all;
}

}  // namespace recollect::kernels
