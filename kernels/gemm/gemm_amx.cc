// 32 rows times 32 outputs at a time, in four registers that sum over all of k. The weights of 32
// outputs stay in the first-level cache for all rows, and those of the next 32 come meanwhile. The
// last rows overlap those before them, so that every register is full; a row's sums do not depend
// on the rows beside it.
#include "kernels/gemm/gemm_amx.h"

#include "kernels/cpu/simd.h"
#include "kernels/cpu/tile_config.h"

namespace recollect::kernels::avx512 {
namespace {

constexpr int kLine = 64;                        // bytes of a row of a register
constexpr int64_t kOutputs = 2 * kLanes;         // of two registers
constexpr int64_t kPairs = kAmxDepth / 2;        // of numbers along k
constexpr int64_t kOfPairs = 2 * kAmxPanel;      // numbers from one row of pairs to the next
constexpr int64_t kOfDepth = kPairs * kOfPairs;  // from one step along k to the next
constexpr int kWeightStride = 2 * kOfPairs;      // in bytes

consteval TileConfig FullTiles() {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.Set(t, kAmxRows, kLine);
  return config;
}
alignas(64) constexpr TileConfig kConfig = FullTiles();

// What to fetch during a step along k: rows of pairs [begin, end) of the next outputs' weights.
struct Ahead {
  const uint16_t* weights;
  int64_t begin, end;
};

RECOLLECT_INLINE void Fetch(const Ahead& ahead, int64_t step) {
  const auto* line = reinterpret_cast<const char*>(ahead.weights + step * kOfDepth);
  for (int64_t pair = ahead.begin; pair < ahead.end; ++pair) {
    _mm_prefetch(line + pair * kWeightStride, _MM_HINT_T0);
    _mm_prefetch(line + pair * kWeightStride + kLine, _MM_HINT_T0);
  }
}

// Rows from `first` on and, if kTwo, from `second` on, times 32 outputs from `j` on. Registers 0 to
// 3 are sums, 4 and 5 rows, 6 and 7 weights.
template <bool kTwo>
RECOLLECT_INLINE void MultiplyBlock(const AmxProduct& product, int64_t first, int64_t second,
                                    int64_t j, const uint16_t* weights, const Ahead& ahead) {
  const uint16_t* a = product.x + first * product.k;
  const uint16_t* b = product.x + second * product.k;
  const int64_t x_stride = product.k * static_cast<int64_t>(sizeof(uint16_t));
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kTwo) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t step = 0; step < product.k / kAmxDepth; ++step) {
    _tile_loadd(4, a + step * kAmxDepth, x_stride);
    _tile_loadd(6, weights + step * kOfDepth, kWeightStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, weights + step * kOfDepth + 2 * kLanes, kWeightStride);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwo) {
      _tile_loadd(5, b + step * kAmxDepth, x_stride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    Fetch(ahead, step);
  }
  const int64_t y_stride = product.n * static_cast<int64_t>(sizeof(float));
  float* y = product.y + first * product.n + j;
  _tile_stored(0, y, y_stride);
  _tile_stored(1, y + kLanes, y_stride);
  if constexpr (kTwo) {
    y = product.y + second * product.n + j;
    _tile_stored(2, y, y_stride);
    _tile_stored(3, y + kLanes, y_stride);
  }
}

RECOLLECT_INLINE const uint16_t* WeightsFrom(const AmxProduct& product, int64_t j) {
  return product.weights + j / kAmxPanel * kAmxPanel * product.k + j % kAmxPanel * 2;
}

}  // namespace

void MultiplyBf16ByTiles(const AmxProduct& product) {
  constexpr int64_t kTogether = 2 * kAmxRows;
  const int64_t last = product.rows - kAmxRows;
  const int64_t blocks = (product.rows + kTogether - 1) / kTogether;
  _tile_loadconfig(&kConfig);
  // The intrinsics do not say that they read memory.
  __asm__ volatile("" ::: "memory");
  for (int64_t j = 0; j < product.n; j += kOutputs) {
    const uint16_t* const weights = WeightsFrom(product, j);
    const uint16_t* const next = WeightsFrom(product, j + kOutputs < product.n ? j + kOutputs : j);
    for (int64_t block = 0; block < blocks; ++block) {
      const Ahead ahead{next, block * kPairs / blocks, (block + 1) * kPairs / blocks};
      const int64_t first = block * kTogether, second = first + kAmxRows;
      if (first < last) {
        MultiplyBlock<true>(product, first, second < last ? second : last, j, weights, ahead);
      } else {
        MultiplyBlock<false>(product, last, last, j, weights, ahead);
      }
    }
  }
  __asm__ volatile("" ::: "memory");
  _tile_release();
}

}  // namespace recollect::kernels::avx512
