#include "kernels/range_attention/range_attention.h"

#include "kernels/range_attention/range_attention_bf16.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(RangeAttention)
RECOLLECT_CPU_CODE_OF(RangeAttentionOfBf16)

void RangeAttentionOfBf16(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                          int64_t rows, const std::array<Bf16KvSpan, kMaxRanges>& parts,
                          const RangeSet* sets, float* out) {
#if defined(RECOLLECT_SIMD)
  if (const PairCode* code = PairCodeOf(ctx, shape)) {
    return RangeAttentionByPairs(ctx, *code, shape, q, q_stride, rows, parts, sets, out);
  }
#endif
  kRangeAttentionOfBf16.For(ctx)(ctx, shape, q, q_stride, rows, parts, sets, out);
}

}  // namespace recollect::kernels
