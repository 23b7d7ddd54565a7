#include "kernels/range_attention/range_attention.h"

#include "kernels/cpu/dispatch.h"
#include "kernels/range_attention/range_attention_bf16.h"

namespace recollect::kernels {
namespace reference {
decltype(kernels::RangeAttention) RangeAttention;
decltype(kernels::RangeAttentionOfBf16) RangeAttentionOfBf16;
}  // namespace reference
namespace avx2 {
decltype(kernels::RangeAttention) RangeAttention;
decltype(kernels::RangeAttentionOfBf16) RangeAttentionOfBf16;
}  // namespace avx2
namespace avx512 {
decltype(kernels::RangeAttention) RangeAttention;
decltype(kernels::RangeAttentionOfBf16) RangeAttentionOfBf16;
}  // namespace avx512

void RangeAttention(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                    int64_t rows, const std::array<KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                    float* out) {
  Select<reference::RangeAttention, avx2::RangeAttention, avx512::RangeAttention>(ctx)(
      ctx, shape, q, q_stride, rows, parts, sets, out);
}

void RangeAttentionOfBf16(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                          int64_t rows, const std::array<Bf16KvSpan, kMaxRanges>& parts,
                          const RangeSet* sets, float* out) {
#if defined(RECOLLECT_SIMD)
  if (const PairCode* code = PairCodeOf(ctx, shape)) {
    return RangeAttentionByPairs(ctx, *code, shape, q, q_stride, rows, parts, sets, out);
  }
#endif
  Select<reference::RangeAttentionOfBf16, avx2::RangeAttentionOfBf16, avx512::RangeAttentionOfBf16>(
      ctx)(ctx, shape, q, q_stride, rows, parts, sets, out);
}

}  // namespace recollect::kernels
