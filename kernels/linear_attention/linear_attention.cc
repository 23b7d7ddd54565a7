#include "kernels/linear_attention/linear_attention.h"

#include "base/check.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
namespace reference {
decltype(kernels::Features) Features;
decltype(kernels::LinearAttention) LinearAttention;
}  // namespace reference
namespace avx2 {
decltype(kernels::Features) Features;
decltype(kernels::LinearAttention) LinearAttention;
}  // namespace avx2
namespace avx512 {
decltype(kernels::Features) Features;
decltype(kernels::LinearAttention) LinearAttention;
}  // namespace avx512

void Features(OpContext& ctx, FeatureMap map, const float* x, int64_t x_stride, int64_t rows,
              int heads, int head_dim, const float* scale, float* features) {
  Select<reference::Features, avx2::Features, avx512::Features>(ctx)(
      ctx, map, x, x_stride, rows, heads, head_dim, scale, features);
}

void LinearAttention(OpContext& ctx, const LinearAttentionShape& shape, const float* q,
                     int64_t rows, const EnteringRows& entering, const float* initial, float* state,
                     float* out) {
  RECOLLECT_DCHECK(entering.count <= rows && shape.head_dim % 2 == 0);
  Select<reference::LinearAttention, avx2::LinearAttention, avx512::LinearAttention>(ctx)(
      ctx, shape, q, rows, entering, initial, state, out);
}

}  // namespace recollect::kernels
