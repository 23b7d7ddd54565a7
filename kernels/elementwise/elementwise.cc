#include "kernels/elementwise/elementwise.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
namespace reference {
decltype(kernels::RmsNorm) RmsNorm;
decltype(kernels::SwiGlu) SwiGlu, GeGlu;
decltype(kernels::Gelu) Gelu, Add;
decltype(kernels::SigmoidGate) SigmoidGate;
decltype(kernels::LogSumExp) LogSumExp;
decltype(kernels::RoundToBf16) RoundToBf16;
decltype(kernels::ConvertToBf16) ConvertToBf16;
decltype(kernels::ConvertToFloat) ConvertToFloat;
}  // namespace reference
namespace avx2 {
decltype(kernels::RmsNorm) RmsNorm;
decltype(kernels::SwiGlu) SwiGlu, GeGlu;
decltype(kernels::Gelu) Gelu, Add;
decltype(kernels::SigmoidGate) SigmoidGate;
decltype(kernels::LogSumExp) LogSumExp;
decltype(kernels::RoundToBf16) RoundToBf16;
decltype(kernels::ConvertToBf16) ConvertToBf16;
decltype(kernels::ConvertToFloat) ConvertToFloat;
}  // namespace avx2
namespace avx512 {
decltype(kernels::RmsNorm) RmsNorm;
decltype(kernels::SwiGlu) SwiGlu, GeGlu;
decltype(kernels::Gelu) Gelu, Add;
decltype(kernels::SigmoidGate) SigmoidGate;
decltype(kernels::LogSumExp) LogSumExp;
decltype(kernels::RoundToBf16) RoundToBf16;
decltype(kernels::ConvertToBf16) ConvertToBf16;
decltype(kernels::ConvertToFloat) ConvertToFloat;
}  // namespace avx512

void RmsNorm(OpContext& ctx, const float* x, const float* gain, float eps, int64_t rows,
             int64_t width, float* y) {
  Select<reference::RmsNorm, avx2::RmsNorm, avx512::RmsNorm>(ctx)(ctx, x, gain, eps, rows, width,
                                                                  y);
}

void SwiGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y) {
  Select<reference::SwiGlu, avx2::SwiGlu, avx512::SwiGlu>(ctx)(ctx, x, rows, width, y);
}

void GeGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y) {
  Select<reference::GeGlu, avx2::GeGlu, avx512::GeGlu>(ctx)(ctx, x, rows, width, y);
}

void Gelu(OpContext& ctx, const float* x, int64_t count, float* y) {
  Select<reference::Gelu, avx2::Gelu, avx512::Gelu>(ctx)(ctx, x, count, y);
}

void SigmoidGate(OpContext& ctx, const float* gate, int64_t gate_stride, const float* x,
                 int64_t rows, int64_t width, float* y) {
  Select<reference::SigmoidGate, avx2::SigmoidGate, avx512::SigmoidGate>(ctx)(
      ctx, gate, gate_stride, x, rows, width, y);
}

float LogSumExp(OpContext& ctx, const float* x, int64_t count) {
  return Select<reference::LogSumExp, avx2::LogSumExp, avx512::LogSumExp>(ctx)(ctx, x, count);
}

void Add(OpContext& ctx, const float* x, int64_t count, float* y) {
  Select<reference::Add, avx2::Add, avx512::Add>(ctx)(ctx, x, count, y);
}

void RoundToBf16(OpContext& ctx, float* x, int64_t count) {
  Select<reference::RoundToBf16, avx2::RoundToBf16, avx512::RoundToBf16>(ctx)(ctx, x, count);
}

void ConvertToBf16(OpContext& ctx, const float* x, int64_t count, Bf16* y) {
  Select<reference::ConvertToBf16, avx2::ConvertToBf16, avx512::ConvertToBf16>(ctx)(ctx, x, count,
                                                                                    y);
}

void ConvertToFloat(OpContext& ctx, const Bf16* x, int64_t count, float* y) {
  Select<reference::ConvertToFloat, avx2::ConvertToFloat, avx512::ConvertToFloat>(ctx)(ctx, x,
                                                                                       count, y);
}

}  // namespace recollect::kernels
