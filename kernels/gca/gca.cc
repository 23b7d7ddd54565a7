#include "kernels/gca/gca.h"

#include "base/check.h"
#include "base/types.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP(Gca)

void Gca(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
         const MemoryView* chunks, const float* weights, int64_t count, float* out) {
  RECOLLECT_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  for (int64_t e = 0; e < count; ++e) {
    RECOLLECT_CHECK(chunks[e].rows >= 1 && chunks[e].rows <= kMaxChunkTokens);
  }
  kGca(ctx, shape, q, rows, chunks, weights, count, out);
}

}  // namespace recollect::kernels
