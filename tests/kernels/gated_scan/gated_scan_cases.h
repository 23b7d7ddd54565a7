// What the tests of the gated scan share.
#ifndef RECOLLECT_TESTS_KERNELS_GATED_SCAN_GATED_SCAN_CASES_H_
#define RECOLLECT_TESTS_KERNELS_GATED_SCAN_GATED_SCAN_CASES_H_

#include <algorithm>

#include "kernels/gated_scan/gated_scan.h"
#include "tests/kernels/cpu/kernel_test_util.h"

namespace recollect::kernels::scan_cases {

// ChunkedGatedScan by its definition, row by row in double: the state is 0 before each chunk.
inline void ChunkedReference(int64_t first, int64_t chunk, const float* z, const float* bias,
                             const float* x, int64_t stride, int64_t rows, int64_t channels,
                             float* state, float* y, int64_t y_stride) {
  for (int64_t row = 0; row < rows; ++row) {
    if ((first + row) % chunk == 0) std::fill_n(state, channels, 0.0f);
    GatedScan(Scalar(), z + row * stride, bias, x + row * stride, stride, 1, channels, state,
              y + row * y_stride, y_stride);
  }
}

}  // namespace recollect::kernels::scan_cases

#endif  // RECOLLECT_TESTS_KERNELS_GATED_SCAN_GATED_SCAN_CASES_H_
