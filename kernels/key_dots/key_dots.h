// Products of one query with many keys that lie side by side:
//   dots[r] = Σ_i q[i] keys[i, r], each product rounded to fp32, and added in the order of i.
// The bits are the same on every instruction set.
#pragma once

#include <cstdint>

#include "base/numeric/bf16.h"
#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

// q[width] and dots[rows] in fp32, keys[width, rows] in bf16: a key is a column. Serial.
RECOLLECT_CPU_OP(KeyDots, void(OpContext& ctx, const float* q, const Bf16* keys, int64_t rows,
                               int64_t width, float* dots));

}  // namespace recollect::kernels
