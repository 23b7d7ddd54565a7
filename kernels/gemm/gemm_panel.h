// fp32 products for CPUs without AVX-512. oneDNN's kernels there (gemm:jit) add up a row
// differently in a call of one row, of four and of eight, so they cannot keep "same rows, same
// bits"; here every sum goes through k in order, whatever the call.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

inline constexpr int kPanelColumns = 16;

// weights[n, k] as panels of 16 outputs, each [k][16], zeros in the last panel's missing columns.
std::vector<float> PackPanels(const float* weights, int64_t n, int64_t k);

// y[rows, n] = x[rows, k] Wᵀ. Rows of y are `y_stride` numbers apart.
RECOLLECT_CPU_OP(GemmPanels, void(OpContext& ctx, const float* panels, int64_t n, int64_t k,
                                  const float* x, int64_t rows, float* y, int64_t y_stride));

}  // namespace recollect::kernels
