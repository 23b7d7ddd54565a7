// Range attention over a cache in bf16, by products of pairs (AMX or AVX512-BF16): queries and keys
// are multiplied as they are, weights are rounded to bf16 before they meet the values, and sums are
// fp32.
//
// Entries of a part are numbered from the sequence's beginning on (Bf16KvSpan::first) and cut into
// spans. Each span has a softmax of its own; a query's spans are merged in their order. So threads
// can share the spans of one row, and a row has the same bits in any company.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/range_attention/range_attention.h"

namespace recollect::kernels {

inline constexpr int64_t kSpanEntries = 1024;

inline constexpr int kMaxQueries = 192;  // of a call, which share packed keys and values
// Queries that are summed together.
inline constexpr int kVectorQueryStep = 6;  // their sums are in registers
inline constexpr int kTileQueryStep = 16;

// Returns the floats of what a query has summed in one span: head_dim values, 16 sums of weights,
// the highest score; begins at a multiple of 64 bytes.
constexpr int64_t SpanSumsFloats(int head_dim) { return head_dim + 32; }

// Queries of one key-value head and a span of one part. Query i is head i % group of row i / group.
struct SpanCall {
  const RangeShape* shape = nullptr;
  const float* q = nullptr;  // [rows, heads, head_dim], rows q_stride apart
  int64_t q_stride = 0;
  int kv_head = 0;
  int64_t begin = 0, end = 0;  // queries, at most kMaxQueries
  const Bf16KvSpan* part = nullptr;
  const int64_t* bounds = nullptr;  // of row 0 in that part: begin, end; rows bounds_stride apart
  int64_t bounds_stride = 0;
  int64_t span = 0;
};

// Writes sums[end - begin, SpanSumsFloats], for which there is room for a multiple of
// PairCode::query_step.
using AttendSpanFunction = void(OpContext& ctx, const SpanCall& call, float* sums);

// The most queries whose spans are merged together.
inline constexpr int kMergedQueries = 16;

// Points to what so many queries have summed in some spans: query i in span s at
// sums + s * stride + i * SpanSumsFloats(head_dim).
struct SummedSpans {
  int head_dim = 0;
  const float* sums = nullptr;
  int queries = 0;
  int spans = 0;
  int64_t stride = 0;  // floats
};

namespace avx512 {
AttendSpanFunction AttendSpan;         // vectors: AVX512-BF16
AttendSpanFunction AttendSpanByTiles;  // AMX
// Merges each query's spans and writes out[i][head_dim].
void MergeSpans(const SummedSpans& sums, float* const* out);
// Adds `weight` times a query's only span to out[i][head_dim]; with `off_by_one` the span has one
// more entry, of score 0 and without a value.
void AddSpan(const SummedSpans& sums, bool off_by_one, float weight, float* const* out);
}  // namespace avx512

// The code of one unit. Codes differ in their bits, since each sums pairs in its own order.
struct PairCode {
  const char* name = "";
  AttendSpanFunction* attend = nullptr;
  int64_t query_step = 0;
};

// Returns the codes that this machine can run within the limit of `isa`, the best first: "amx",
// "avx512_bf16". DNNL_MAX_CPU_ISA limits them, too.
std::vector<PairCode> PairCodes(Isa isa);

// Whether a code can compute this op: the width of heads, no bias.
bool PairsCanAttend(const RangeShape& shape);

// Computes RangeAttentionOfBf16 by a given code, where PairsCanAttend.
void RangeAttentionByPairs(OpContext& ctx, const PairCode& code, const RangeShape& shape,
                           const float* q, int64_t q_stride, int64_t rows,
                           const std::array<Bf16KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                           float* out);

// Returns the code by which RangeAttentionOfBf16 is computed in this context, null: by none.
const PairCode* PairCodeOf(const OpContext& ctx, const RangeShape& shape);

}  // namespace recollect::kernels
