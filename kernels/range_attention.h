// Softmax attention of each query row over a few contiguous ranges of cached keys: the bounded
// dilated attention of RAT+ (design 2.2, A(t) = window ∪ dilated ∪ initial) once the cache keeps
// each part in position order, and the bidirectional attention of the chunk encoder as the
// one-range case. Query head h reads key-value head floor(h kv_heads / heads): contiguous groups.
//   p = softmax over all entries of all ranges of (q·k / sqrt(head_dim));  out = Σ p v
// Per query, entries are summed in the order of the ranges given, whatever else is computed beside
// it: a row's bits do not depend on the other rows of the call. No entries: out = 0.
#ifndef RECOLLECT_KERNELS_RANGE_ATTENTION_H_
#define RECOLLECT_KERNELS_RANGE_ATTENTION_H_

#include <array>
#include <cstdint>

#include "kernels/op_context.h"

namespace recollect::kernels {

inline constexpr int kMaxRanges = 3;  // initial, dilated, window

// Keys and values of one part of the cache: [entries, kv_heads, head_dim] fp32, dense.
struct KvSpan {
  const float* keys = nullptr;
  const float* values = nullptr;
};

// Half-open entry ranges into each part for one query.
struct RangeSet {
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::array<Range, kMaxRanges> ranges;
};

// q[rows, heads, head_dim], rows `q_stride` floats apart; sets[rows]; out[rows, heads, head_dim]
// dense. REQUIRES: kv_heads divides heads.
void RangeAttention(OpContext& ctx, const float* q, int64_t q_stride, int64_t rows, int heads,
                    int kv_heads, int head_dim, const std::array<KvSpan, kMaxRanges>& parts,
                    const RangeSet* sets, float* out);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_RANGE_ATTENTION_H_
