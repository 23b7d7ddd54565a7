// Exact landmark search: scores of a query against bf16 landmark keys and the n best (design 2.4).
//   r_e = <u, κ_e> / sqrt(d_k), products and sums in fp32, in an order that depends on d_k alone
// Ties go to the earlier candidate; the result is sorted by score, best first, then by candidate.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/numeric/bf16.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

class LandmarkSketch;

// Computes scores[count] of keys[count, width] against query[width].
RECOLLECT_CPU_OP(LandmarkScores, void(OpContext& ctx, const float* query, int64_t width,
                                      const Bf16* keys, int64_t count, float* scores));

// Computes the same only for the keys at the indices at[count].
RECOLLECT_CPU_OP(LandmarkScoresAt,
                 void(OpContext& ctx, const float* query, int64_t width, const Bf16* keys,
                      const int64_t* at, int64_t count, float* scores));

struct ScoredCandidate {
  int64_t candidate = 0;  // index over all segments, in order
  float score = 0;
  friend bool operator==(const ScoredCandidate&, const ScoredCandidate&) = default;
};

// A dense run of keys [count, d_k]; candidates are numbered through the segments in order.
struct KeySegment {
  const Bf16* keys = nullptr;
  int64_t count = 0;
  // Used on the CPU only: a sketch of keys that include these, or null, and the index of the first
  // of these in it. Results do not depend on it.
  const LandmarkSketch* sketch = nullptr;
  int64_t sketch_first = 0;
  // The query's sums over 4-bit codes of all keys of the sketch, if they are known.
  const int32_t* sums = nullptr;
};

// A lower bound that searches over disjoint parts of one query's candidates share, possibly
// concurrently: n candidates have at least this score, so that all parts can skip lower scores.
struct SearchFloor {
  std::atomic<float> score{-std::numeric_limits<float>::infinity()};
};

// Returns the n best candidates of all segments, fewer when there are fewer. n >= 0. Non-finite
// scores rank last. With a floor, which the search may raise, only those candidates are sure to be
// found that are among the n best of all parts.
std::vector<ScoredCandidate> LandmarkTopK(OpContext& ctx, std::span<const float> query,
                                          std::span<const KeySegment> segments, int n,
                                          SearchFloor* floor = nullptr);

// Merges results over disjoint ranges of candidates into the n best of all, by the same order.
std::vector<ScoredCandidate> MergeTopK(std::span<const std::vector<ScoredCandidate>> parts, int n);

}  // namespace recollect::kernels
