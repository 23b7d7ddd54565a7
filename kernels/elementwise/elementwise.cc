#include "kernels/elementwise/elementwise.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/reference.h"
#include "kernels/cpu/simd_ops.h"

namespace recollect::kernels {
namespace {

#if defined(RECOLLECT_SIMD)
#define RECOLLECT_TABLE(Op)                                                                  \
  constexpr Implementation<decltype(Op)> k##Op[] = {{"scalar", Isa::kScalar, reference::Op}, \
                                                    {"avx2", Isa::kAvx2, avx2::Op},          \
                                                    {"avx512", Isa::kAvx512, avx512::Op}};
#else
#define RECOLLECT_TABLE(Op) \
  constexpr Implementation<decltype(Op)> k##Op[] = {{"scalar", Isa::kScalar, reference::Op}};
#endif
RECOLLECT_TABLE(RmsNorm)
RECOLLECT_TABLE(SwiGlu)
RECOLLECT_TABLE(GeGlu)
RECOLLECT_TABLE(Gelu)
RECOLLECT_TABLE(SigmoidGate)
RECOLLECT_TABLE(LogSumExp)
RECOLLECT_TABLE(Add)
RECOLLECT_TABLE(RoundToBf16)
#undef RECOLLECT_TABLE

}  // namespace

std::span<const Implementation<decltype(RmsNorm)>> RmsNormImplementations() { return kRmsNorm; }
std::span<const Implementation<decltype(SwiGlu)>> SwiGluImplementations() { return kSwiGlu; }
std::span<const Implementation<decltype(GeGlu)>> GeGluImplementations() { return kGeGlu; }
std::span<const Implementation<decltype(Gelu)>> GeluImplementations() { return kGelu; }
std::span<const Implementation<decltype(SigmoidGate)>> SigmoidGateImplementations() {
  return kSigmoidGate;
}
std::span<const Implementation<decltype(LogSumExp)>> LogSumExpImplementations() {
  return kLogSumExp;
}
std::span<const Implementation<decltype(Add)>> AddImplementations() { return kAdd; }
std::span<const Implementation<decltype(RoundToBf16)>> RoundToBf16Implementations() {
  return kRoundToBf16;
}

void RmsNorm(OpContext& ctx, const float* x, const float* gain, float eps, int64_t rows,
             int64_t width, float* y) {
  Select(RmsNormImplementations(), ctx.isa())(ctx, x, gain, eps, rows, width, y);
}

void SwiGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y) {
  Select(SwiGluImplementations(), ctx.isa())(ctx, x, rows, width, y);
}

void GeGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y) {
  Select(GeGluImplementations(), ctx.isa())(ctx, x, rows, width, y);
}

void Gelu(OpContext& ctx, const float* x, int64_t count, float* y) {
  Select(GeluImplementations(), ctx.isa())(ctx, x, count, y);
}

void SigmoidGate(OpContext& ctx, const float* gate, int64_t gate_stride, const float* x,
                 int64_t rows, int64_t width, float* y) {
  Select(SigmoidGateImplementations(), ctx.isa())(ctx, gate, gate_stride, x, rows, width, y);
}

float LogSumExp(OpContext& ctx, const float* x, int64_t count) {
  return Select(LogSumExpImplementations(), ctx.isa())(ctx, x, count);
}

void Add(OpContext& ctx, const float* x, int64_t count, float* y) {
  Select(AddImplementations(), ctx.isa())(ctx, x, count, y);
}

void RoundToBf16(OpContext& ctx, float* x, int64_t count) {
  Select(RoundToBf16Implementations(), ctx.isa())(ctx, x, count);
}

void ConvertToBf16(OpContext& ctx, const float* x, int64_t count, Bf16* y) {
#if defined(RECOLLECT_SIMD)
  auto* bits = reinterpret_cast<uint16_t*>(y);
  if (ctx.isa() == Isa::kAvx512) return avx512::ConvertToBf16(x, count, bits);
  if (ctx.isa() == Isa::kAvx2) return avx2::ConvertToBf16(x, count, bits);
#endif
  (void)ctx;
  for (int64_t i = 0; i < count; ++i) y[i] = Bf16::FromFloat(x[i]);
}

void ConvertToFloat(OpContext& ctx, const Bf16* x, int64_t count, float* y) {
#if defined(RECOLLECT_SIMD)
  const auto* bits = reinterpret_cast<const uint16_t*>(x);
  if (ctx.isa() == Isa::kAvx512) return avx512::ConvertToFloat(bits, count, y);
  if (ctx.isa() == Isa::kAvx2) return avx2::ConvertToFloat(bits, count, y);
#endif
  (void)ctx;
  for (int64_t i = 0; i < count; ++i) y[i] = x[i].ToFloat();
}

}  // namespace recollect::kernels
