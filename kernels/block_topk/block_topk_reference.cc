#include <algorithm>

#include "kernels/block_topk/block_topk.h"

namespace recollect::kernels::reference {

void BlockScores(OpContext&, const float* q, int64_t width, const float* low, const float* high,
                 int64_t stride, int64_t blocks, float* scores) {
  for (int64_t b = 0; b < blocks; ++b) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) {
      sum += std::max(static_cast<double>(q[i]) * low[b * stride + i],
                      static_cast<double>(q[i]) * high[b * stride + i]);
    }
    scores[b] = static_cast<float>(sum);
  }
}

}  // namespace recollect::kernels::reference
