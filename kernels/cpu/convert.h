// Bulk conversion between fp32 and bf16, round to nearest even; the same bits on every instruction
// set.
#pragma once

#include <cstdint>

#include "base/numeric/bf16.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

RECOLLECT_CPU_OP(ConvertToBf16, void(OpContext& ctx, const float* x, int64_t count, Bf16* y));
RECOLLECT_CPU_OP(ConvertToFloat, void(OpContext& ctx, const Bf16* x, int64_t count, float* y));

}  // namespace recollect::kernels
