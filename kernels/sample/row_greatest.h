// The greatest of some logits, for the greedy choice (sample.h). Private to sample/.
#pragma once

#include <cstdint>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

// Returns the greatest of x[count]; NaN is left out. -infinity if nothing is left.
RECOLLECT_CPU_OP(RowGreatest, float(OpContext& ctx, const float* x, int64_t count));

}  // namespace recollect::kernels
