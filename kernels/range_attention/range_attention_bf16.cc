#include "kernels/range_attention/range_attention_bf16.h"

#include <algorithm>

#include "base/numeric/round_up.h"
#include "kernels/cpu/onednn_isa.h"

namespace recollect::kernels {
#if defined(RECOLLECT_SIMD)
namespace {

constexpr ScratchName kSums;
constexpr int64_t kFewQueries = 12;

// The spans that rows [first, last] need, in order: the order of their sums.
struct Span {
  size_t part;
  int64_t number;
};
std::vector<Span> SpansOf(const std::array<Bf16KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                          int64_t first, int64_t last) {
  std::vector<Span> spans;
  for (size_t p = 0; p < kMaxRanges; ++p) {
    RangeSet::Range needed{INT64_MAX, INT64_MIN};
    for (int64_t row = first; row <= last; ++row) {
      const RangeSet::Range& range = sets[row].ranges[p];
      if (range.begin >= range.end) continue;
      needed = {std::min(needed.begin, range.begin), std::max(needed.end, range.end)};
    }
    if (needed.begin >= needed.end) continue;
    for (int64_t number = (needed.begin + parts[p].first) / kSpanEntries;
         number * kSpanEntries < needed.end + parts[p].first; ++number) {
      spans.push_back({p, number});
    }
  }
  return spans;
}

// Arguments of the op.
struct Op {
  const PairCode& code;
  const RangeShape& shape;
  const float* q;
  int64_t q_stride;
  const std::array<Bf16KvSpan, kMaxRanges>& parts;
  const RangeSet* sets;
  float* out;

  int64_t group() const { return shape.heads / shape.kv_heads; }
};

// Queries [begin, end) of each key-value head [first, first + heads).
struct Queries {
  int first, heads;
  int64_t begin, end;
};

// Returns the floats of what the queries of a head sum in one span.
int64_t SpanFloats(const Op& op, const Queries& queries) {
  const int64_t step = op.code.query_step;
  return RoundUp(queries.end - queries.begin, step) * SpanSumsFloats(op.shape.head_dim);
}

SpanCall CallOf(const Op& op, const Queries& queries, int head, const Span& span) {
  return {.shape = &op.shape,
          .q = op.q,
          .q_stride = op.q_stride,
          .kv_head = queries.first + head,
          .begin = queries.begin,
          .end = queries.end,
          .part = &op.parts[span.part],
          .bounds = &op.sets->ranges[span.part].begin,
          .bounds_stride = sizeof(RangeSet) / sizeof(int64_t),
          .span = span.number};
}

// Merges the spans of one head's queries.
void Merge(const Op& op, const Queries& queries, int head, int spans, const float* sums) {
  const int dim = op.shape.head_dim;
  const int64_t of_query = SpanSumsFloats(dim), group = op.group();
  for (int64_t begin = queries.begin; begin < queries.end; begin += kMergedQueries) {
    const int64_t end = std::min(begin + kMergedQueries, queries.end);
    float* out[kMergedQueries];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i / group * op.shape.heads + (queries.first + head) * group + i % group;
      out[i - begin] = op.out + at * dim;
    }
    avx512::MergeSpans({.head_dim = dim,
                        .sums = sums + (begin - queries.begin) * of_query,
                        .queries = static_cast<int>(end - begin),
                        .spans = spans,
                        .stride = SpanFloats(op, queries)},
                       out);
  }
}

// Sums every span of every head, on the team if there is one, then merges them query by query.
void Attend(OpContext& ctx, const Op& op, const Queries& queries, const std::vector<Span>& spans) {
  const int count = static_cast<int>(spans.size());
  const int64_t of_span = SpanFloats(op, queries);
  float* sums = ctx.Floats(kSums, of_span * count * queries.heads);
  ctx.Share(queries.heads * count, [&](OpContext& own, int part) {
    const SpanCall call =
        CallOf(op, queries, part / count, spans[static_cast<size_t>(part % count)]);
    op.code.attend(own, call, sums + part * of_span);
  });
  for (int h = 0; h < queries.heads; ++h) Merge(op, queries, h, count, sums + h * count * of_span);
}

}  // namespace

void RangeAttentionByPairs(OpContext& ctx, const PairCode& code, const RangeShape& shape,
                           const float* q, int64_t q_stride, int64_t rows,
                           const std::array<Bf16KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                           float* out) {
  const Op op{code, shape, q, q_stride, parts, sets, out};
  const int64_t group = op.group(), queries = rows * group;
  // Sums take room: of few queries a team shares all heads, else the spans of one after the other.
  const int heads = ctx.has_team() && queries <= kFewQueries ? shape.kv_heads : 1;
  for (int64_t begin = 0; begin < queries; begin += kMaxQueries) {
    const int64_t end = std::min<int64_t>(begin + kMaxQueries, queries);
    const std::vector<Span> spans = SpansOf(parts, sets, begin / group, (end - 1) / group);
    for (int first = 0; first < shape.kv_heads; first += heads) {
      Attend(ctx, op, {first, heads, begin, end}, spans);
    }
  }
}
#endif

std::vector<PairCode> PairCodes([[maybe_unused]] Isa isa) {
  std::vector<PairCode> codes;
#if defined(RECOLLECT_SIMD)
  if (isa < Isa::kAvx512) return codes;
  if (OneDnnAllows(dnnl::cpu_isa::avx512_core_amx)) {
    codes.push_back({"amx", avx512::AttendSpanByTiles, kTileQueryStep});
  }
  if (OneDnnAllows(dnnl::cpu_isa::avx512_core_bf16)) {
    codes.push_back({"avx512_bf16", avx512::AttendSpan, kVectorQueryStep});
  }
#endif
  return codes;
}

bool PairsCanAttend(const RangeShape& shape) {
  return shape.slopes == nullptr && (shape.head_dim == 64 || shape.head_dim == 128);
}

const PairCode* PairCodeOf(const OpContext& ctx, const RangeShape& shape) {
  static const std::vector<PairCode> codes = PairCodes(Isa::kAvx512);
  const bool can = ctx.isa() == Isa::kAvx512 && !codes.empty() && PairsCanAttend(shape);
  return can ? &codes.front() : nullptr;
}

}  // namespace recollect::kernels
