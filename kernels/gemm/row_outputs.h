// Says what the vector code of gemm_row.h gets, in plain structures and constants alone: vector
// code includes this (kernels/cpu/simd.h). Private to gemm/.
#ifndef RECOLLECT_KERNELS_GEMM_ROW_OUTPUTS_H_
#define RECOLLECT_KERNELS_GEMM_ROW_OUTPUTS_H_

#include <cstdint>

namespace recollect::kernels {

// The weights lie in blocks of 64 outputs, each [k / 2][64][2], as oneDNN packs them for AMX.
inline constexpr int64_t kRowBlock = 64;
inline constexpr int64_t kRowDepth = 32;  // numbers of k that are added at once

// Some outputs of a block: all, or 32 that begin with its first or 33rd. Numbers are bf16.
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

#endif  // RECOLLECT_KERNELS_GEMM_ROW_OUTPUTS_H_
