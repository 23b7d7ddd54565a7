#include "kernels/gca/gca.h"

#include "base/check.h"
#include "base/types.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/reference.h"
#include "kernels/cpu/simd_ops.h"

namespace recollect::kernels {
namespace {

#if defined(RECOLLECT_SIMD)
template <auto kRows>
void By(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
        std::span<const MemoryView> chunks, std::span<const float> weights, float* out) {
  kRows(ctx, shape, q, rows, chunks.data(), weights.data(), static_cast<int64_t>(chunks.size()),
        out);
}
#endif

constexpr Implementation<decltype(Gca)> kImplementations[] = {
    {"scalar", Isa::kScalar, reference::Gca},
#if defined(RECOLLECT_SIMD)
    {"avx2", Isa::kAvx2, By<avx2::GcaRows>},
    {"avx512", Isa::kAvx512, By<avx512::GcaRows>},
#endif
};

}  // namespace

std::span<const Implementation<decltype(Gca)>> GcaImplementations() { return kImplementations; }

void Gca(OpContext& ctx, const GcaShape& shape, const float* q, int64_t rows,
         std::span<const MemoryView> chunks, std::span<const float> weights, float* out) {
  RECOLLECT_CHECK(chunks.size() == weights.size());
  RECOLLECT_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  for (const MemoryView& chunk : chunks) {
    RECOLLECT_CHECK(chunk.rows >= 1 && chunk.rows <= kMaxChunkTokens);
  }
  Select(GcaImplementations(), ctx.isa())(ctx, shape, q, rows, chunks, weights, out);
}

}  // namespace recollect::kernels
