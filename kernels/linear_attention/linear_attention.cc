#include "kernels/linear_attention/linear_attention.h"

#include "base/check.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/reference.h"
#include "kernels/cpu/simd_ops.h"

namespace recollect::kernels {
namespace {

#if defined(RECOLLECT_SIMD)
template <auto kRows>
void FeaturesBy(OpContext&, FeatureMap map, const float* x, int64_t x_stride, int64_t rows,
                int heads, int head_dim, const float* scale, float* features) {
  kRows(map == FeatureMap::kSoftmax, x, x_stride, rows, heads, head_dim, scale, features);
}
#endif

constexpr Implementation<decltype(Features)> kFeatures[] = {
    {"scalar", Isa::kScalar, reference::Features},
#if defined(RECOLLECT_SIMD)
    {"avx2", Isa::kAvx2, FeaturesBy<avx2::FeatureRows>},
    {"avx512", Isa::kAvx512, FeaturesBy<avx512::FeatureRows>},
#endif
};

constexpr Implementation<decltype(LinearAttention)> kLinearAttention[] = {
    {"scalar", Isa::kScalar, reference::LinearAttention},
#if defined(RECOLLECT_SIMD)
    {"avx2", Isa::kAvx2, avx2::LinearAttention},
    {"avx512", Isa::kAvx512, avx512::LinearAttention},
#endif
};

}  // namespace

std::span<const Implementation<decltype(Features)>> FeaturesImplementations() { return kFeatures; }
std::span<const Implementation<decltype(LinearAttention)>> LinearAttentionImplementations() {
  return kLinearAttention;
}

void Features(OpContext& ctx, FeatureMap map, const float* x, int64_t x_stride, int64_t rows,
              int heads, int head_dim, const float* scale, float* features) {
  Select(FeaturesImplementations(), ctx.isa())(ctx, map, x, x_stride, rows, heads, head_dim, scale,
                                               features);
}

void LinearAttention(OpContext& ctx, const LinearAttentionShape& shape, const float* q,
                     int64_t rows, const EnteringRows& entering, const float* initial, float* state,
                     float* out) {
  RECOLLECT_DCHECK(entering.count <= rows && shape.head_dim % 2 == 0);
  Select(LinearAttentionImplementations(), ctx.isa())(ctx, shape, q, rows, entering, initial, state,
                                                      out);
}

}  // namespace recollect::kernels
