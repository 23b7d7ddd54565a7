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

namespace {

// Σ weight · code of key i of a block over `count` rows.
int32_t RowSums(const uint8_t* rows, const int8_t* weights, int64_t count, int64_t i) {
  int32_t sum = 0;
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t j = 0; j < 4; ++j) {
      const uint8_t byte = rows[row * kSketchRowBytes + 4 * i + j];
      const int8_t* weight = weights + row * kSketchRowCoordinates + j;
      sum += (byte & 15) * weight[0] + (byte >> 4) * weight[4];
    }
  }
  return sum;
}

}  // namespace

void SumSketch(OpContext&, std::span<const SketchSums> queries, int64_t coarse_rows,
               const uint8_t* codes, int64_t blocks) {
  for (const SketchSums& query : queries) {
    for (int64_t key = 0; key < blocks * kSketchBlock; ++key) {
      const uint8_t* rows = codes + key / kSketchBlock * coarse_rows * kSketchRowBytes;
      query.sums[key] = RowSums(rows, query.weights, coarse_rows, key % kSketchBlock);
    }
  }
}

void SketchBounds(OpContext&, const int8_t* fine_weights, const SketchFactors& factors,
                  int64_t fine_rows, const uint8_t* codes, const int32_t* sums,
                  const SketchErrors* errors, int64_t blocks, float* bounds) {
  for (int64_t block = 0; block < blocks; ++block) {
    const SketchErrors& error = errors[block];
    const float slack = factors.Slack(error), coarse_slack = factors.CoarseSlack(error);
    const uint8_t* upper = codes + 2 * block * fine_rows * kSketchRowBytes;
    const uint8_t* lower = upper + fine_rows * kSketchRowBytes;
    for (int64_t i = 0; i < kSketchBlock; ++i) {
      const int32_t fine = 16 * RowSums(upper, fine_weights, fine_rows, i) +
                           RowSums(lower, fine_weights, fine_rows, i);
      const int64_t key = block * kSketchBlock + i;
      bounds[key] = factors.base + factors.fine * static_cast<float>(fine) +
                    factors.coarse * static_cast<float>(sums[key]) +
                    coarse_slack * static_cast<float>(error.coarse_part[i]) + slack;
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
