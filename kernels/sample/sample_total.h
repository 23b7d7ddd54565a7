// The sum of the weights of a sample (sample.h) over a row of logits. Private to sample/.
#pragma once

#include <cstdint>

#include "kernels/cpu/op_context.h"

namespace recollect::kernels {

// Returns Σ WeightOf(logits[i], greatest, temperature) of sample_weights.h; NaN and -infinity weigh
// nothing. `greatest` is the greatest of them, finite. The same on every instruction set.
uint64_t SampleTotal(OpContext& ctx, const float* logits, int64_t count, float greatest,
                     float temperature);

}  // namespace recollect::kernels
