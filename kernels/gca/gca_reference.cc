#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/gca/gca.h"

namespace recollect::kernels::reference {

void Gca(OpContext&, const GcaShape& shape, const float* q, int64_t rows, const MemoryView* chunks,
         const float* weights, int64_t count, float* out) {
  const int dim = shape.head_dim;
  const int64_t width = static_cast<int64_t>(shape.heads) * dim;
  for (int64_t r = 0; r < rows; ++r) {
    for (int h = 0; h < shape.heads; ++h) {
      const float* query = q + r * width + h * dim;
      const int kv_head = h * shape.kv_heads / shape.heads;
      std::vector<double> total(dim, 0.0);
      for (int64_t e = 0; e < count; ++e) {
        const auto at = [&](const Bf16* memory, int row, int d) -> double {
          return memory[(static_cast<int64_t>(row) * shape.kv_heads + kv_head) * dim + d].ToFloat();
        };
        std::vector<double> scores(chunks[e].rows);
        double largest = shape.off_by_one ? 0 : -std::numeric_limits<double>::infinity();
        for (int j = 0; j < chunks[e].rows; ++j) {
          for (int d = 0; d < dim; ++d) scores[j] += query[d] * at(chunks[e].keys, j, d);
          scores[j] /= std::sqrt(static_cast<double>(dim));
          largest = std::max(largest, scores[j]);
        }
        double sum = shape.off_by_one ? std::exp(-largest) : 0;
        for (double s : scores) sum += std::exp(s - largest);
        for (int j = 0; j < chunks[e].rows; ++j) {
          const double p = std::exp(scores[j] - largest) / sum;
          for (int d = 0; d < dim; ++d) total[d] += weights[e] * p * at(chunks[e].values, j, d);
        }
      }
      for (int d = 0; d < dim; ++d) out[r * width + h * dim + d] = static_cast<float>(total[d]);
    }
  }
}

}  // namespace recollect::kernels::reference
