#include "kernels/gemm/gemm_panel.h"

namespace recollect::kernels {
namespace reference {

void GemmPanels(OpContext&, const float* panels, int64_t n, int64_t k, const float* x, int64_t rows,
                float* y, int64_t y_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < n; ++j) {
      const float* panel = panels + j / kPanelColumns * k * kPanelColumns + j % kPanelColumns;
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += static_cast<double>(x[r * k + i]) * panel[i * kPanelColumns];
      }
      y[r * y_stride + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace reference
RECOLLECT_CPU_OP_CODE(GemmPanels)

std::vector<float> PackPanels(const float* weights, int64_t n, int64_t k) {
  const int64_t panels = (n + kPanelColumns - 1) / kPanelColumns;
  std::vector<float> packed(panels * k * kPanelColumns, 0.0f);
  for (int64_t j = 0; j < n; ++j) {
    float* panel = packed.data() + j / kPanelColumns * k * kPanelColumns + j % kPanelColumns;
    for (int64_t i = 0; i < k; ++i) panel[i * kPanelColumns] = weights[j * k + i];
  }
  return packed;
}

}  // namespace recollect::kernels
