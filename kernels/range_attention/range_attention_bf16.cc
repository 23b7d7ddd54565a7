#include "kernels/range_attention/range_attention_bf16.h"

#include <algorithm>
#include <vector>

#include "kernels/gemm/gemm.h"

namespace recollect::kernels {
#if defined(RECOLLECT_SIMD)
namespace {

constexpr int kSlotSums = kFirstKernelSlot + 13;
// Of sums in scratch: queries whose sums are in registers together.
constexpr int64_t kQueryStep = 6;

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

}  // namespace

bool AttendsByPairs(const OpContext& ctx, const RangeShape& shape) {
  return ctx.isa() == Isa::kAvx512 && Bf16Supported() && shape.slopes == nullptr &&
         (shape.head_dim == 64 || shape.head_dim == 128);
}

void RangeAttentionByPairs(OpContext& ctx, const RangeShape& shape, const float* q,
                           int64_t q_stride, int64_t rows,
                           const std::array<Bf16KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                           float* out) {
  const int64_t group = shape.heads / shape.kv_heads, queries = rows * group;
  const int64_t of_query = SpanSumsFloats(shape.head_dim);
  // A team shares all heads; one thread needs no room for the sums of more than one.
  const int heads_at_once = ctx.has_team() ? shape.kv_heads : 1;
  for (int64_t begin = 0; begin < queries; begin += kSpanQueries) {
    const int64_t end = std::min(begin + kSpanQueries, queries);
    const std::vector<Span> spans = SpansOf(parts, sets, begin / group, (end - 1) / group);
    const int count = static_cast<int>(spans.size());
    const int64_t of_span = (end - begin + kQueryStep - 1) / kQueryStep * kQueryStep * of_query;
    const int64_t of_head = of_span * count;
    float* sums = ctx.Floats(kSlotSums, of_head * heads_at_once);
    for (int first = 0; first < shape.kv_heads; first += heads_at_once) {
      ctx.Share(heads_at_once * count, [&](OpContext& own, int part) {
        const Span& span = spans[static_cast<size_t>(part % count)];
        avx512::AttendSpan(own,
                           {.shape = &shape,
                            .q = q,
                            .q_stride = q_stride,
                            .kv_head = first + part / count,
                            .begin = begin,
                            .end = end,
                            .part = &parts[span.part],
                            .bounds = &sets->ranges[span.part].begin,
                            .bounds_stride = sizeof(RangeSet) / sizeof(int64_t),
                            .span = span.number},
                           sums + part * of_span);
      });
      for (int h = 0; h < heads_at_once; ++h) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t head = (first + h) * group + i % group;
          avx512::MergeSpans(shape.head_dim, sums + h * of_head + (i - begin) * of_query, count,
                             of_span, out + (i / group * shape.heads + head) * shape.head_dim);
        }
      }
    }
  }
}
#endif

}  // namespace recollect::kernels
