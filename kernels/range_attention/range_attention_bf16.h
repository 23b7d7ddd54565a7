// Range attention over a cache in bf16, by products of pairs (AVX512-BF16): queries and keys are
// multiplied as they are, weights are rounded to bf16 before they meet the values, and sums are
// fp32. Private to range attention.
//
// Entries of a part are numbered from the sequence's beginning on (Bf16KvSpan::first) and cut into
// spans. Each span has a softmax of its own; a query's spans are merged in their order. So threads
// can share the spans of one row, and a row has the same bits in any company.
#ifndef RECOLLECT_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_BF16_H_
#define RECOLLECT_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_BF16_H_

#include <cstdint>

#include "kernels/range_attention/range_attention.h"

namespace recollect::kernels {

inline constexpr int64_t kSpanEntries = 1024;
inline constexpr int kSpanQueries = 48;   // the most of a call
inline constexpr int kSpanQueryStep = 6;  // whose sums are kept in registers together

// Returns the floats of what a query has summed in one span: head_dim values, 16 sums of weights,
// the highest score; begins at a multiple of 64 bytes.
constexpr int64_t SpanSumsFloats(int head_dim) { return head_dim + 32; }

// Whether this op is computed so: the machine, the width of heads, no bias.
bool AttendsByPairs(const OpContext& ctx, const RangeShape& shape);
// RangeAttentionOfBf16 where AttendsByPairs.
decltype(RangeAttentionOfBf16) RangeAttentionByPairs;

// Queries of one key-value head and a span of one part. Query i is head i % group of row i / group.
struct SpanCall {
  const RangeShape* shape = nullptr;
  const float* q = nullptr;  // [rows, heads, head_dim], rows q_stride apart
  int64_t q_stride = 0;
  int kv_head = 0;
  int64_t begin = 0, end = 0;  // queries, at most kSpanQueries
  const Bf16KvSpan* part = nullptr;
  const int64_t* bounds = nullptr;  // of row 0 in that part: begin, end; rows bounds_stride apart
  int64_t bounds_stride = 0;
  int64_t span = 0;
};

namespace avx512 {
// Writes sums[end - begin, SpanSumsFloats], for which there is room for a multiple of
// kSpanQueryStep.
void AttendSpan(OpContext& ctx, const SpanCall& call, float* sums);
// Merges the sums of one query's spans, `stride` floats apart, and writes out[head_dim].
void MergeSpans(int head_dim, const float* sums, int spans, int64_t stride, float* out);
}  // namespace avx512

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_RANGE_ATTENTION_RANGE_ATTENTION_BF16_H_
