#include "kernels/range_attention/range_attention.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/reference.h"
#include "kernels/cpu/simd_ops.h"

namespace recollect::kernels {
namespace {

#if defined(RECOLLECT_SIMD)
// Vector code sees a RangeSet as [kMaxRanges][begin, end].
static_assert(sizeof(RangeSet) == kMaxRanges * 2 * sizeof(int64_t));

template <auto kRows>
void By(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride, int64_t rows,
        const std::array<KvSpan, kMaxRanges>& parts, const RangeSet* sets, float* out) {
  if (rows == 0) return;
  kRows(ctx, shape, q, q_stride, rows, parts.data(), &sets->ranges[0].begin, out);
}
#endif

constexpr Implementation<decltype(RangeAttention)> kImplementations[] = {
    {"scalar", Isa::kScalar, reference::RangeAttention},
#if defined(RECOLLECT_SIMD)
    {"avx2", Isa::kAvx2, By<avx2::RangeAttentionRows>},
    {"avx512", Isa::kAvx512, By<avx512::RangeAttentionRows>},
#endif
};

}  // namespace

std::span<const Implementation<decltype(RangeAttention)>> RangeAttentionImplementations() {
  return kImplementations;
}

void RangeAttention(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                    int64_t rows, const std::array<KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                    float* out) {
  Select(RangeAttentionImplementations(), ctx.isa())(ctx, shape, q, q_stride, rows, parts, sets,
                                                     out);
}

}  // namespace recollect::kernels
