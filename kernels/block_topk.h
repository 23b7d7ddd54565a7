// Which blocks of earlier keys a query attends to besides its local pattern (RAT+, spec of block
// top-k; the scores of Quest and MoBA):
//   s_b = Σ_i max(q_i low_bi, q_i high_bi)
// With low and high the smallest and largest key of block b, channel by channel, s_b is the most
// that a key of the block can reach (Quest); with both the mean key it is <q, mean> (MoBA).
#ifndef RECOLLECT_KERNELS_BLOCK_TOPK_H_
#define RECOLLECT_KERNELS_BLOCK_TOPK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/op_context.h"

namespace recollect::kernels {

// q[width] of one head; low, high: [blocks, width], rows `stride` floats apart (both);
// scores[blocks]. A block's score does not depend on the others of the call.
void BlockScores(OpContext& ctx, const float* q, int64_t width, const float* low, const float* high,
                 int64_t stride, int64_t blocks, float* scores);

// The `count` blocks of the best scores, ascending by index; of equal scores the lower index first.
// All, when there are no more. NaN counts as the worst.
void ChooseBlocks(std::span<const float> scores, int64_t count, std::vector<int64_t>& chosen);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_BLOCK_TOPK_H_
