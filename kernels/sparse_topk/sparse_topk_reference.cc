#include <vector>

#include "kernels/sparse_topk/sparse_topk.h"

namespace recollect::kernels::reference {

void SparseScores(OpContext&, const SparsePart* parts, int64_t count, const float* scales,
                  float query_scale, int64_t blocks, float* scores) {
  std::vector<double> sums(static_cast<size_t>(blocks));
  for (int64_t p = 0; p < count; ++p) {
    const SparseList& list = parts[p].list;
    for (int64_t i = 0; i < list.count; ++i) {
      const int64_t block = list.blocks == nullptr ? i : list.blocks[i];
      sums[static_cast<size_t>(block)] += static_cast<double>(parts[p].weight) * list.weights[i];
    }
  }
  for (int64_t block = 0; block < blocks; ++block) {
    const auto sum = static_cast<float>(sums[static_cast<size_t>(block)]);
    scores[block] = sum * (scales == nullptr ? 1.0f : scales[block]) * query_scale;
  }
}

}  // namespace recollect::kernels::reference
