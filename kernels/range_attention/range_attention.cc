#include "kernels/range_attention/range_attention.h"

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
namespace reference {
decltype(kernels::RangeAttention) RangeAttention;
}  // namespace reference
namespace avx2 {
decltype(kernels::RangeAttention) RangeAttention;
}  // namespace avx2
namespace avx512 {
decltype(kernels::RangeAttention) RangeAttention;
}  // namespace avx512

void RangeAttention(OpContext& ctx, const RangeShape& shape, const float* q, int64_t q_stride,
                    int64_t rows, const std::array<KvSpan, kMaxRanges>& parts, const RangeSet* sets,
                    float* out) {
  Select<reference::RangeAttention, avx2::RangeAttention, avx512::RangeAttention>(ctx)(
      ctx, shape, q, q_stride, rows, parts, sets, out);
}

}  // namespace recollect::kernels
