#include "kernels/linear_attention/linear_attention.h"

#include "base/check.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP(Features)
RECOLLECT_CPU_OP(LinearAttention)

void Features(OpContext& ctx, FeatureMap map, const float* x, int64_t x_stride, int64_t rows,
              int heads, int head_dim, const float* scale, float* features) {
  kFeatures(ctx, map, x, x_stride, rows, heads, head_dim, scale, features);
}

void LinearAttention(OpContext& ctx, const LinearAttentionShape& shape, const float* q,
                     int64_t rows, const EnteringRows& entering, const float* initial, float* state,
                     float* out) {
  RECOLLECT_DCHECK(entering.count <= rows && shape.head_dim % 2 == 0);
  kLinearAttention(ctx, shape, q, rows, entering, initial, state, out);
}

}  // namespace recollect::kernels
