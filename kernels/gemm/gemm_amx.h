// Products of many rows in bf16 on AMX, from the weights that oneDNN has packed for it. oneDNN
// computes a product panel by panel as well, but waits for each part of the weights that is not in
// the first-level cache; here it is fetched while the part before it is multiplied. Private to
// gemm/. Plain declarations alone: vector code includes this (kernels/cpu/simd.h).
#pragma once

#include <stdint.h>

namespace recollect::kernels {

// Where weights [n, k] lie: panels of 64 outputs, each [k / 32][16][64][2], so that a pair of
// numbers along k is side by side, as oneDNN packs them for AMX. n is a multiple of kAmxPanel, k of
// kAmxDepth.
inline constexpr int64_t kAmxPanel = 64;
inline constexpr int64_t kAmxDepth = 32;
// Rows of a register; a product has at least so many.
inline constexpr int64_t kAmxRows = 16;

// y[rows, n] = x[rows, k] Wᵀ, dense; x and weights in bf16.
struct AmxProduct {
  const uint16_t* x = nullptr;
  int64_t rows = 0;
  const uint16_t* weights = nullptr;
  int64_t n = 0;
  int64_t k = 0;
  float* y = nullptr;
};
using MultiplyAmx = void(const AmxProduct& product);

}  // namespace recollect::kernels
