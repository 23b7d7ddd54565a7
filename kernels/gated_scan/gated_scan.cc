#include "kernels/gated_scan/gated_scan.h"

#include <algorithm>

namespace recollect::kernels {
RECOLLECT_CPU_OP_CODE(GatedScan)

void ChunkedGatedScan(OpContext& ctx, int64_t first, int64_t chunk, const float* z,
                      const float* bias, const float* x, int64_t stride, int64_t rows,
                      int64_t channels, float* state, float* y, int64_t y_stride) {
  for (int64_t row = 0; row < rows;) {
    const int64_t place = (first + row) % chunk;
    const int64_t count = std::min(chunk - place, rows - row);
    if (place == 0) std::fill_n(state, channels, 0.0f);
    GatedScan(ctx, z + row * stride, bias, x + row * stride, stride, count, channels, state,
              y + row * y_stride, y_stride);
    row += count;
  }
}

}  // namespace recollect::kernels
