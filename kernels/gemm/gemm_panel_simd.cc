#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_panel.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

constexpr int kVecs = kPanelColumns / kLanes;

// kRows rows against one panel; six rows of two vectors use 15 of AVX2's 16 registers.
template <int kRows>
RECOLLECT_INLINE void Tile(const float* panel, int64_t k, const float* x, float* y,
                           int64_t y_stride, int columns) {
  Vec sum[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int u = 0; u < kVecs; ++u) sum[r][u] = Zero();
  }
  for (int64_t i = 0; i < k; ++i) {
    Vec weight[kVecs];
#pragma GCC unroll 2
    for (int u = 0; u < kVecs; ++u) weight[u] = Load(panel + i * kPanelColumns + u * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec left = Set(x[r * k + i]);
#pragma GCC unroll 2
      for (int u = 0; u < kVecs; ++u) sum[r][u] = Fma(left, weight[u], sum[r][u]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int u = 0; u < kVecs; ++u) {
      const int left = columns - u * kLanes;
      if (left >= kLanes) {
        Store(y + r * y_stride + u * kLanes, sum[r][u]);
      } else if (left > 0) {
        StoreFirst(y + r * y_stride + u * kLanes, sum[r][u], left);
      }
    }
  }
}

}  // namespace

void GemmPanels(OpContext&, const float* panels, int64_t n, int64_t k, const float* x, int64_t rows,
                float* y, int64_t y_stride) {
  for (int64_t j = 0; j < n; j += kPanelColumns, panels += k * kPanelColumns) {
    const int columns = static_cast<int>(n - j < kPanelColumns ? n - j : kPanelColumns);
    int64_t r = 0;
    for (; r + 6 <= rows; r += 6)
      Tile<6>(panels, k, x + r * k, y + r * y_stride + j, y_stride, columns);
    for (; r + 2 <= rows; r += 2)
      Tile<2>(panels, k, x + r * k, y + r * y_stride + j, y_stride, columns);
    for (; r < rows; ++r) Tile<1>(panels, k, x + r * k, y + r * y_stride + j, y_stride, columns);
  }
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
