#include "kernels/sparse_topk/sparse_topk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "kernels/landmark_topk/best_candidates.h"
#include "kernels/landmark_topk/landmark_sketch.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(SparseScores)

namespace {

constexpr ScratchName kScores;
// Scores that are looked at before the floor rises.
constexpr int64_t kBatch = 1024;
// 18 bits: times the 14 bits of a block's weights, a sum has 32.
constexpr double kMaxWeight = (1 << 18) - 1;
static_assert(kMaxWeight * SparseRange::kMaxBlockWeight < 4294967296.0);

// The lists of the query's words.
std::vector<SparsePart> PartsOf(const WholeQuery& query, const SparseRange& range) {
  std::vector<SparsePart> parts;
  for (const WholeTerm& term : query.terms) {
    const SparseList list = range.list(term.word);
    if (list.count > 0) parts.push_back({list, term.weight});
  }
  return parts;
}

const float* ScalesOf(const SparseRange& range) {
  return range.scales().empty() ? nullptr : range.scales().data();
}

// One query's best so far; ranges come in order.
class Searching {
 public:
  Searching(std::span<const SparseTerm> terms, int n) : query_(InWholeNumbers(terms)), best_(n) {}

  void Search(OpContext& ctx, const SparseRange& range, int64_t first) {
    const std::vector<SparsePart> parts = PartsOf(query_, range);
    if (parts.empty()) return;
    float* const scores = ctx.Floats(kScores, range.blocks());
    SparseScores(ctx, parts.data(), std::ssize(parts), ScalesOf(range), query_.scale,
                 range.blocks(), scores);
    for (int64_t begin = 0; begin < range.blocks(); begin += kBatch) {
      // Above zero, and not below the worst of n.
      const float least = std::max(best_.least(), std::numeric_limits<float>::denorm_min());
      const int64_t found = BoundsNotBelow(
          ctx, scores + begin, std::min(kBatch, range.blocks() - begin), least, places_);
      for (int64_t i = 0; i < found; ++i) {
        const int64_t block = begin + places_[i];
        if (best_.MayEnter(scores[block])) best_.Offer({first + block, scores[block]});
      }
    }
  }

  std::vector<ScoredCandidate> Best() && { return std::move(best_).Sorted(); }

 private:
  WholeQuery query_;
  BestCandidates best_;
  int64_t places_[kBatch];
};

}  // namespace

WholeQuery InWholeNumbers(std::span<const SparseTerm> query) {
  std::map<int32_t, double> weights;
  for (const SparseTerm& term : query) weights[term.word] += static_cast<double>(term.weight);
  double most = 0;
  for (const auto& [word, weight] : weights) most = std::max(most, weight);
  WholeQuery whole{{}, static_cast<float>(most / kMaxWeight)};
  for (const auto& [word, weight] : weights) {
    const double rounded = most > 0 ? std::round(weight / most * kMaxWeight) : 0;
    if (rounded > 0) whole.terms.push_back({word, static_cast<uint32_t>(rounded)});
  }
  return whole;
}

void SparseScoresOf(OpContext& ctx, std::span<const SparseTerm> query, const SparseRange& range,
                    float* scores) {
  const WholeQuery whole = InWholeNumbers(query);
  const std::vector<SparsePart> parts = PartsOf(whole, range);
  SparseScores(ctx, parts.data(), std::ssize(parts), ScalesOf(range), whole.scale, range.blocks(),
               scores);
}

std::vector<std::vector<ScoredCandidate>> SparseTopK(
    OpContext& ctx, std::span<const std::vector<SparseTerm>> queries,
    std::span<const SparseRange* const> ranges, int n) {
  std::vector<std::vector<ScoredCandidate>> best(queries.size());
  if (n <= 0) return best;
  int64_t total = 0;
  for (const SparseRange* range : ranges) total += range->blocks();
  std::vector<Searching> searches;
  for (const std::vector<SparseTerm>& query : queries) {
    searches.emplace_back(query, static_cast<int>(std::min<int64_t>(n, total)));
  }
  int64_t first = 0;
  for (const SparseRange* range : ranges) {
    for (Searching& search : searches) search.Search(ctx, *range, first);
    first += range->blocks();
  }
  for (size_t q = 0; q < queries.size(); ++q) best[q] = std::move(searches[q]).Best();
  return best;
}

}  // namespace recollect::kernels
