// Softmax attention of each query row over a few contiguous ranges of cached keys: the bounded
// dilated attention of RAT+ (design 2.2, A(t) = window ∪ dilated ∪ initial) once the cache keeps
// each part in position order, and the bidirectional attention of the chunk encoder as the
// one-range case. Query head h reads key-value head floor(h kv_heads / heads): contiguous groups.
//   p = softmax over all entries of all ranges of (q·k / sqrt(head_dim) + bias);  out = Σ p v
// The bias is 0, or ALiBi's: entry i of a row's n is n - 1 - i positions back and gets
// -slope_h (n - 1 - i), so a row's entries must then be consecutive positions up to its own.
// Per query, entries are summed in the order of the ranges given, so a row's bits do not depend on
// the other rows of the call. No entries: out = 0.
#pragma once

#include <array>
#include <cstdint>

#include "base/numeric/bf16.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

inline constexpr int kMaxRanges = 3;  // initial, dilated, window

// Keys and values of one part of the cache: [entries, kv_heads, head_dim] fp32, dense.
struct KvSpan {
  const float* keys = nullptr;
  const float* values = nullptr;
};

// The same in Bf16. `first`: the number of entry 0 among all entries that the part has had, from
// the sequence's beginning on; sums are grouped by it. With a `head_stride` the entries of a head
// follow each other, [entries, head_dim], and those of the next head begin so many numbers later.
struct Bf16KvSpan {
  const Bf16* keys = nullptr;
  const Bf16* values = nullptr;
  int64_t first = 0;
  int64_t head_stride = 0;
};

// Half-open entry ranges into each part for one query.
struct RangeSet {
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::array<Range, kMaxRanges> ranges;
};

struct RangeShape {
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  const float* slopes = nullptr;  // [heads] of ALiBi, borrowed; null: no bias
};

// q[rows, heads, head_dim], rows `q_stride` floats apart; sets[rows]; out[rows, heads, head_dim]
// dense.
RECOLLECT_CPU_OP(RangeAttention,
                 void(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                      int64_t rows, const std::array<KvSpan, kMaxRanges>& parts,
                      const RangeSet* sets, float* out));

// Computes the same from a cache in bf16. With AMX or AVX512-BF16, heads of 64 or 128 and no bias,
// q and each p before it meets a value are rounded to bf16; elsewhere the bits are those of the
// widened numbers.
void RangeAttentionOfBf16(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                          int64_t rows, const std::array<Bf16KvSpan, kMaxRanges>& parts,
                          const RangeSet* sets, float* out);

}  // namespace recollect::kernels
