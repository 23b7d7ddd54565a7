// Exact sparse search: which blocks share words with a query, and the n best of them.
//   score(block) = scale(block) · Σ over rows j of the block, Σ over terms i of the query with the
//                  same word: weight_j · weight_i
// Terms of one word count as one with the sum of their weights. A query's weights are rounded to
// whole numbers of its scale, which is the largest weight / (2^18 - 1); those of blocks are whole
// (sparse_range.h). Sums are then whole numbers below 2^32, the same in any order, in any number of
// threads and on any machine. Only at the end are they multiplied in fp32:
//   score = (sum · scale(block)) · scale(query)
//
// Blocks whose score is zero are no hits, so that there may be fewer than n. Ties go to the earlier
// candidate; the result is sorted by score, best first, then by candidate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "kernels/sparse_topk/sparse_range.h"

namespace recollect::kernels {

struct SparseTerm {
  int32_t word = 0;
  float weight = 0;  // finite, not negative
};

// A query in whole numbers of its scale.
struct WholeTerm {
  int32_t word = 0;
  uint32_t weight = 0;  // from 1 to 2^18 - 1
};

struct WholeQuery {
  std::vector<WholeTerm> terms;  // of different words, in order
  float scale = 0;
};

// Returns the query as the search rounds it; terms that round to nothing are left out.
WholeQuery InWholeNumbers(std::span<const SparseTerm> query);

// A list and what its weights are multiplied by.
struct SparsePart {
  SparseList list;
  uint32_t weight = 0;
};

// scores[blocks] from the sums over `parts`[count]; `scales` [blocks], or null: 1 each. With parts
// of one query and one range, scores of the formula above.
RECOLLECT_CPU_OP(SparseScores,
                 void(OpContext& ctx, const SparsePart* parts, int64_t count, const float* scales,
                      float query_scale, int64_t blocks, float* scores));

// The scores [blocks] of all blocks of a range; 0 of those that share no word with the query.
void SparseScoresOf(OpContext& ctx, std::span<const SparseTerm> query, const SparseRange& range,
                    float* scores);

// The n best blocks of all ranges for each query; candidates are numbered through the ranges, in
// order. n >= 0. Queries share the passes over ranges, and none changes another's result.
std::vector<std::vector<ScoredCandidate>> SparseTopK(
    OpContext& ctx, std::span<const std::vector<SparseTerm>> queries,
    std::span<const SparseRange* const> ranges, int n);

}  // namespace recollect::kernels
