#include "kernels/linear_attention/linear_attention.h"

#include "base/check.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(Features)
RECOLLECT_CPU_CODE_OF(LinearAttention)

void LinearAttention(OpContext& ctx, const LinearAttentionShape& shape, const float* q,
                     int64_t rows, const EnteringRows& entering, const float* initial, float* state,
                     float* out) {
  RECOLLECT_DCHECK(entering.count <= rows && shape.head_dim % 2 == 0);
  kLinearAttention.For(ctx)(ctx, shape, q, rows, entering, initial, state, out);
}

}  // namespace recollect::kernels
