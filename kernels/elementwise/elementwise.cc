#include "kernels/elementwise/elementwise.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {
RECOLLECT_CPU_OP(RmsNorm)
RECOLLECT_CPU_OP(SwiGlu)
RECOLLECT_CPU_OP(GeGlu)
RECOLLECT_CPU_OP(Gelu)
RECOLLECT_CPU_OP(Add)
RECOLLECT_CPU_OP(SigmoidGate)
RECOLLECT_CPU_OP(LogSumExp)
RECOLLECT_CPU_OP(RoundToBf16)
RECOLLECT_CPU_OP(ConvertToBf16)
RECOLLECT_CPU_OP(ConvertToFloat)

void RmsNorm(OpContext& ctx, const float* x, const float* gain, float eps, int64_t rows,
             int64_t width, float* y) {
  kRmsNorm(ctx, x, gain, eps, rows, width, y);
}

void SwiGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y) {
  kSwiGlu(ctx, x, rows, width, y);
}

void GeGlu(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y) {
  kGeGlu(ctx, x, rows, width, y);
}

void Gelu(OpContext& ctx, const float* x, int64_t count, float* y) { kGelu(ctx, x, count, y); }

void SigmoidGate(OpContext& ctx, const float* gate, int64_t gate_stride, const float* x,
                 int64_t rows, int64_t width, float* y) {
  kSigmoidGate(ctx, gate, gate_stride, x, rows, width, y);
}

float LogSumExp(OpContext& ctx, const float* x, int64_t count) { return kLogSumExp(ctx, x, count); }

void Add(OpContext& ctx, const float* x, int64_t count, float* y) { kAdd(ctx, x, count, y); }

void RoundToBf16(OpContext& ctx, float* x, int64_t count) { kRoundToBf16(ctx, x, count); }

void ConvertToBf16(OpContext& ctx, const float* x, int64_t count, Bf16* y) {
  kConvertToBf16(ctx, x, count, y);
}

void ConvertToFloat(OpContext& ctx, const Bf16* x, int64_t count, float* y) {
  kConvertToFloat(ctx, x, count, y);
}

}  // namespace recollect::kernels
