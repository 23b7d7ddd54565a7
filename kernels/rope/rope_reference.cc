#include <cmath>

#include "kernels/rope/rope.h"

namespace recollect::kernels::reference {

void Rope(OpContext&, const RopeAngles& angles, int64_t first_position, int64_t rows,
          int64_t row_stride, int heads, int head_dim, float* x) {
  const int half = head_dim / 2;
  const bool halves = angles.pairs == RopePairs::kHalves;
  for (int64_t r = 0; r < rows; ++r) {
    for (int h = 0; h < heads; ++h) {
      float* row = x + r * row_stride + static_cast<int64_t>(h) * head_dim;
      for (int j = 0; j < half; ++j) {
        const int64_t position = (first_position + r) / angles.step;
        const double angle = static_cast<double>(position) *
                             std::pow(angles.base, -2.0 * j / head_dim) / angles.Divisor(j);
        const double c = std::cos(angle), s = std::sin(angle);
        const int first = halves ? j : 2 * j, second = halves ? half + j : 2 * j + 1;
        const double a = row[first], b = row[second];
        row[first] = static_cast<float>(a * c - b * s);
        row[second] = static_cast<float>(b * c + a * s);
      }
    }
  }
}

}  // namespace recollect::kernels::reference
