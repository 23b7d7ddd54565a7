#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/linear_attention/linear_attention.h"

namespace recollect::kernels::reference {
namespace {

// out[dim] = softmax(sign y).
void Softmax(const std::vector<double>& y, double sign, float* out) {
  double largest = -INFINITY, sum = 0;
  for (const double v : y) largest = std::max(largest, sign * v);
  for (const double v : y) sum += std::exp(sign * v - largest);
  for (const double v : y) *out++ = static_cast<float>(std::exp(sign * v - largest) / sum);
}

}  // namespace

void Features(OpContext&, FeatureMap map, const float* x, int64_t x_stride, int64_t rows, int heads,
              int head_dim, const float* scale, float* features) {
  std::vector<double> y(static_cast<size_t>(head_dim));
  for (int64_t r = 0; r < rows; ++r) {
    for (int h = 0; h < heads; ++h, features += 2 * head_dim) {
      for (int d = 0; d < head_dim; ++d) {
        y[d] = static_cast<double>(x[r * x_stride + static_cast<int64_t>(h) * head_dim + d]) *
               (scale == nullptr ? 1 : scale[d]);
      }
      if (map == FeatureMap::kSoftmax) {
        Softmax(y, 1, features);
        Softmax(y, -1, features + head_dim);
        continue;
      }
      for (int d = 0; d < head_dim; ++d) {
        features[d] = static_cast<float>(std::max(y[d], 0.0));
        features[head_dim + d] = static_cast<float>(std::max(-y[d], 0.0));
      }
    }
  }
}

void LinearAttention(OpContext&, const LinearAttentionShape& shape, const float* q, int64_t rows,
                     const EnteringRows& entering, const float* initial, float* state, float* out) {
  const int dim = shape.head_dim, features = 2 * dim;
  const int64_t size = static_cast<int64_t>(features) * dim;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t e = r - (rows - entering.count);
    for (int g = 0; e >= 0 && g < shape.kv_heads; ++g) {
      for (int f = 0; f < features; ++f) {
        for (int d = 0; d < dim; ++d) {
          const int64_t row = e * shape.kv_heads + g;
          state[g * size + f * dim + d] =
              static_cast<float>(state[g * size + f * dim + d] +
                                 static_cast<double>(entering.keys[row * features + f]) *
                                     entering.values[row * dim + d]);
        }
      }
    }
    for (int h = 0; h < shape.heads; ++h) {
      const int64_t g = h * shape.kv_heads / shape.heads;
      for (int d = 0; d < dim; ++d) {
        double sum = 0;
        for (int f = 0; f < features; ++f) {
          const double s = state[g * size + f * dim + d] +
                           (initial == nullptr ? 0.0 : initial[h * size + f * dim + d]);
          sum += q[(r * shape.heads + h) * features + f] * s;
        }
        out[(r * shape.heads + h) * dim + d] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace recollect::kernels::reference
