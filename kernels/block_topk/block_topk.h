// Chooses the blocks of earlier keys that a query attends to besides its local pattern (RAT+, spec
// of block top-k; the scores of Quest and MoBA):
//   s_b = Σ_i max(q_i low_bi, q_i high_bi)
// If low and high are the smallest and largest key of block b, channel by channel, s_b is an upper
// bound of its keys' scores (Quest); if both are the mean key, s_b = <q, mean> (MoBA).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

// q[width] of one head; low, high: [blocks, width], rows `stride` floats apart (both);
// scores[blocks]. A block's score does not depend on the call's other blocks.
RECOLLECT_CPU_OP(BlockScores,
                 void(OpContext& ctx, const float* q, int64_t width, const float* low,
                      const float* high, int64_t stride, int64_t blocks, float* scores));

// Sets `chosen` to the `count` blocks with the best scores, or to all if there are no more,
// ascending by index. Of equal scores the lower index is preferred; NaN ranks with -infinity.
void ChooseBlocks(std::span<const float> scores, int64_t count, std::vector<int64_t>& chosen);

}  // namespace recollect::kernels
