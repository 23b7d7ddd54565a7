#include "kernels/landmark_topk/landmark_sketch.h"

namespace recollect::kernels::reference {

void SketchCoordinates(OpContext&, const float* x, int64_t stride, int64_t rows, int64_t dense,
                       const float* directions, float* coordinates) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t j = 0; j < kSketchColumns; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < dense; ++d) {
        sum += static_cast<double>(x[row * stride + d]) * directions[d * kSketchColumns + j];
      }
      coordinates[row * kSketchColumns + j] = static_cast<float>(sum);
    }
  }
}

void SketchBounds(OpContext&, const int8_t* weights, const SketchFactors& factors,
                  const SketchRows& rows, const uint8_t* codes, const SketchErrors* errors,
                  int64_t blocks, float* bounds) {
  for (int64_t block = 0; block < blocks; ++block) {
    const SketchErrors &error = errors[block], &factor = factors.errors;
    const float slack = factor.fine * error.fine + factor.coarse * error.coarse +
                        factor.outside * error.outside + factor.fine_codes * error.fine_codes +
                        factor.coarse_codes * error.coarse_codes + factor.size * error.size;
    for (int64_t i = 0; i < kSketchBlock; ++i) {
      int32_t fine = 0, coarse = 0;
      for (int64_t row = 0; row < rows.all(); ++row) {
        int32_t sum = 0;
        for (int64_t j = 0; j < 4; ++j) {
          const uint8_t byte = codes[(block * rows.all() + row) * kSketchRowBytes + 4 * i + j];
          const int8_t* weight = weights + row * kSketchRowCoordinates + j;
          sum += (byte & 15) * weight[0] + (byte >> 4) * weight[4];
        }
        if (row < rows.fine) {
          fine += 16 * sum;
        } else if (row < 2 * rows.fine) {
          fine += sum;
        } else {
          coarse += sum;
        }
      }
      bounds[block * kSketchBlock + i] = factors.base + factors.fine * static_cast<float>(fine) +
                                         factors.coarse * static_cast<float>(coarse) + slack;
    }
  }
}

int64_t BoundsNotBelow(OpContext&, const float* bounds, int64_t count, float least,
                       int64_t* places) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!(bounds[i] < least)) places[found++] = i;
  }
  return found;
}

}  // namespace recollect::kernels::reference
