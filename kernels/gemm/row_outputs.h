// Says what the vector code of gemm_row.h gets, in plain structures and constants alone: vector
// code includes this (kernels/cpu/simd.h). Private to gemm/.
#pragma once

#include "kernels/gemm/gemm_amx.h"

namespace recollect::kernels {

// Some outputs of a panel (gemm_amx.h): all, or 32 that begin with its first or 33rd. Numbers are
// bf16.
struct RowOutputs {
  const uint16_t* weights = nullptr;  // of the first output
  const uint16_t* x = nullptr;        // [k]
  int64_t k = 0;
  int64_t outputs = 0;
};

namespace avx512 {
// Writes y[outputs].
void MultiplyRow(const RowOutputs& some, float* y);
}  // namespace avx512

}  // namespace recollect::kernels
