// Exact landmark search: scores of a query against bf16 landmark keys and the n best (design 2.4).
//   r_e = <u, κ_e> / sqrt(d_k), products and sums in fp32, in an order that depends on d_k alone
// Ties go to the earlier candidate; the result is sorted by score, best first, then by candidate.
#ifndef RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_H_
#define RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/bf16.h"
#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

class LandmarkSketch;

// scores[count] of keys[count, width] against query[width].
void LandmarkScores(OpContext& ctx, const float* query, int64_t width, const Bf16* keys,
                    int64_t count, float* scores);

// The same of the keys at places at[count] only.
void LandmarkScoresAt(OpContext& ctx, const float* query, int64_t width, const Bf16* keys,
                      const int64_t* at, int64_t count, float* scores);

struct ScoredCandidate {
  int64_t candidate = 0;  // index over all segments, in order
  float score = 0;
  friend bool operator==(const ScoredCandidate&, const ScoredCandidate&) = default;
};

// A dense run of keys [count, d_k]; candidates are numbered through the segments in order.
struct KeySegment {
  const Bf16* keys = nullptr;
  int64_t count = 0;
  // On the CPU: a sketch of more keys, if there is one, and the place of these among them. Results
  // do not depend on it.
  const LandmarkSketch* sketch = nullptr;
  int64_t sketch_first = 0;
  // The query's sums over 4-bit codes of all keys of the sketch, if they are known.
  const int32_t* sums = nullptr;
};

// What searches for the n best over disjoint parts of one query's candidates, perhaps at once, tell
// each other: n candidates have at least this score. Parts then leave out what scores less.
struct SearchFloor {
  std::atomic<float> score{-std::numeric_limits<float>::infinity()};
};

// The n best candidates of all segments, fewer when there are fewer. n >= 0. Non-finite scores rank
// last. With a floor, which may rise, only those of the n best of all parts that are here are sure
// to be found.
std::vector<ScoredCandidate> LandmarkTopK(OpContext& ctx, std::span<const float> query,
                                          std::span<const KeySegment> segments, int n,
                                          SearchFloor* floor = nullptr);

// Merges results over disjoint ranges of candidates into the n best of all, by the same order.
std::vector<ScoredCandidate> MergeTopK(std::span<const std::vector<ScoredCandidate>> parts, int n);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_TOPK_H_
