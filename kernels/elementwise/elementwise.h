// Row-wise ops between the matrix products: RMSNorm, SwiGLU, GEGLU, GELU, sigmoid gate; log of
// a sum of exponentials. fp32, serial, dense rows.
#pragma once

#include <cstdint>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

// y[r, :] = x[r, :] / sqrt(mean(x[r, :]²) + eps) * gain; gain may be null (all ones). x[rows,
// width]; y may be x.
RECOLLECT_CPU_OP(RmsNorm, void(OpContext& ctx, const float* x, const float* gain, float eps,
                               int64_t rows, int64_t width, float* y));

// y[r, j] = silu(x[r, j]) * x[r, width + j]: x[rows, 2 width] holds gate then up; y[rows, width].
RECOLLECT_CPU_OP(SwiGlu,
                 void(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y));

// y[r, j] = gelu(x[r, j]) * x[r, width + j], GELU as below; x, y as SwiGlu's.
RECOLLECT_CPU_OP(GeGlu,
                 void(OpContext& ctx, const float* x, int64_t rows, int64_t width, float* y));

// y = x Φ(x) with Φ(x) = (1 + erf(x / √2)) / 2, the exact form: relative error of a few ulp on both
// sides of zero. 0 for -inf. x, y: `count` floats; y may be x.
RECOLLECT_CPU_OP(Gelu, void(OpContext& ctx, const float* x, int64_t count, float* y));

// y[r, j] = sigmoid(gate[r, j]) * x[r, j]. gate rows are `gate_stride` floats apart; x and y are
// dense; y may be x.
RECOLLECT_CPU_OP(SigmoidGate, void(OpContext& ctx, const float* gate, int64_t gate_stride,
                                   const float* x, int64_t rows, int64_t width, float* y));

// ln Σ exp(x_i) over `count` >= 1 floats, each finite or -infinity, at least one of them finite.
// The sum's relative error is that of RmsNorm's sum.
RECOLLECT_CPU_OP(LogSumExp, float(OpContext& ctx, const float* x, int64_t count));

// y += x over `count` floats.
RECOLLECT_CPU_OP(Add, void(OpContext& ctx, const float* x, int64_t count, float* y));

// Rounds x to bf16 and back, in place.
RECOLLECT_CPU_OP(RoundToBf16, void(OpContext& ctx, float* x, int64_t count));

}  // namespace recollect::kernels
