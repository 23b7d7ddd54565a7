// The sum of the weights of a sample (sample.h) over a row of logits. Private to sample/.
#pragma once

#include <cstdint>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

// Returns Σ WeightOf(logits[i], greatest, temperature) of sample_weights.h; NaN and -infinity weigh
// nothing. `greatest` is the greatest of them, finite. The same on every instruction set.
RECOLLECT_CPU_OP(SampleTotal, uint64_t(OpContext& ctx, const float* logits, int64_t count,
                                       float greatest, float temperature));

}  // namespace recollect::kernels
