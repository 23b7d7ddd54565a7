#include "engine/step/successors.h"

#include <algorithm>
#include <cstdint>

namespace recollect::engine {
namespace {

// Whether `candidate` and the one behind it are of one document or session.
bool HasSuccessor(std::span<const KeyRun> runs, int64_t candidate) {
  for (const KeyRun& run : runs) {
    if (candidate < run.count) return candidate + 1 < run.count;
    candidate -= run.count;
  }
  return false;
}

}  // namespace

void AddSuccessors(std::span<const KeyRun> runs, int n_ret, float bias,
                   std::vector<kernels::ScoredCandidate>& best) {
  const std::vector<kernels::ScoredCandidate> found = best;
  const size_t givers = std::min(found.size(), static_cast<size_t>(n_ret));
  for (size_t i = 0; i < givers; ++i) {
    if (!HasSuccessor(runs, found[i].candidate)) continue;
    const int64_t successor = found[i].candidate + 1;
    const float given = found[i].score + bias;
    const auto same = std::find_if(best.begin(), best.end(), [&](const auto& scored) {
      return scored.candidate == successor;
    });
    if (same == best.end()) {
      best.push_back({successor, given});
    } else {
      same->score = std::max(same->score, given);
    }
  }
  best = kernels::MergeTopK(std::span(&best, 1), static_cast<int>(found.size()));
}

}  // namespace recollect::engine
