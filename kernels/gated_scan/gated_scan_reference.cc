#include <cmath>

#include "kernels/gated_scan/gated_scan.h"

namespace recollect::kernels::reference {

void GatedScan(OpContext&, const float* z, const float* bias, const float* x, int64_t stride,
               int64_t rows, int64_t channels, float* state, float* y, int64_t y_stride) {
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t c = 0; c < channels; ++c) {
      const double logit = static_cast<double>(z[t * stride + c]) + (bias == nullptr ? 0 : bias[c]);
      const double g = 1.0 / (1.0 + std::exp(-logit));
      state[c] = static_cast<float>(g * state[c] + (1.0 - g) * x[t * stride + c]);
      y[t * y_stride + c] = state[c];
    }
  }
}

}  // namespace recollect::kernels::reference
