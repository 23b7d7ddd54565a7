// The greatest of some logits, for the greedy choice (sample.h). Private to sample/.
#pragma once

#include <cstdint>

#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

// Returns the greatest of x[count]; NaN is left out. -infinity if nothing is left.
float RowGreatest(OpContext& ctx, const float* x, int64_t count);

}  // namespace recollect::kernels
