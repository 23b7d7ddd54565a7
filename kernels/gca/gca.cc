#include "kernels/gca/gca.h"

#include "base/check.h"
#include "base/types.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/op_team.h"
#include "kernels/gca/gca_bf16.h"

namespace recollect::kernels {
RECOLLECT_CPU_CODE_OF(Gca)

namespace {

void Check(const GcaShape& shape, const MemoryView* chunks, int64_t count) {
  RECOLLECT_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  for (int64_t e = 0; e < count; ++e) {
    RECOLLECT_CHECK(chunks[e].rows >= 1 && chunks[e].rows <= kMaxChunkTokens);
  }
}

}  // namespace

void Gca(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
         const MemoryView* chunks, const float* weights, int64_t count, float* out) {
  Check(shape, chunks, count);
  kGca.For(ctx)(ctx, shape, q, rows, chunks, weights, count, out);
}

void ReadChunksSoon(OpContext& ctx, const GcaShape& shape, const MemoryView* chunks,
                    int64_t count) {
  if (!ctx.has_team()) return;
  const int64_t of_row = int64_t{shape.kv_heads} * shape.head_dim * sizeof(Bf16);
  for (int64_t e = count / 2; e < count; ++e) {
    for (const Bf16* rows : {chunks[e].keys, chunks[e].values}) {
      ctx.team()->ahead().Add(rows, chunks[e].rows * of_row);
    }
  }
}

void GcaOfBf16(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
               const MemoryView* chunks, const float* weights, int64_t count, float* out) {
#if defined(RECOLLECT_SIMD)
  // By AVX512-BF16 it would take longer than in fp32 (0059).
  const PairCode* const code = PairCodeOf(ctx, ShapeOfChunk(shape));
  if (code != nullptr && code->attend == &avx512::AttendSpanByTiles) {
    Check(shape, chunks, count);
    return GcaByPairs(ctx, *code, shape, q, rows, chunks, weights, count, out);
  }
#endif
  Gca(ctx, shape, q, rows, chunks, weights, count, out);
}

}  // namespace recollect::kernels
