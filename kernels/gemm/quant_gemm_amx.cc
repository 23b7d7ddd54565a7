// Products of many rows on AMX: 16 rows of codes times a panel of 16 outputs, 32 numbers at a time,
// since each group of 32 has scales of its own. A panel is unpacked to 8 bits once and then
// multiplied with every 16 rows.
#include "kernels/cpu/tile_config.h"
#include "kernels/gemm/quant_rows_simd.h"

namespace recollect::kernels::avx512 {
namespace {

constexpr int kTileRows = kQuantTileRows;

// Tiles 0 and 1 are sums [16 rows][16 outputs], 2 and 3 codes of rows [16][kNumbers], 4 and 5
// codes of outputs [kNumbers / 4][16 outputs][4].
consteval TileConfig ConfigOf(int numbers) {
  TileConfig config;
  for (int t = 0; t < 2; ++t) {
    config.Set(t, kTileRows, kQuantPanel * sizeof(int32_t));
    config.Set(2 + t, kTileRows, numbers);
    config.Set(4 + t, numbers / 4, kQuantLine);
  }
  return config;
}

alignas(64) constexpr TileConfig kConfigs[] = {ConfigOf(kQuantGroup), ConfigOf(kQuantGroup / 2)};

// 16 rows and a panel.
struct Block {
  const uint8_t* units;      // of the panel
  const uint8_t* quads;      // the panel unpacked
  const int8_t* codes;       // [16, k]
  const QuantGroup* scales;  // [16, groups]
  int64_t groups;
  // What to fetch of the next panel while a group is multiplied.
  const uint8_t* ahead;
  int64_t bytes_ahead;
};

// Fetches group by group: a whole panel at once would wait for the few reads that a core can have
// under way (Sapphire Rapids, weights from beyond the second-level cache: a tenth of the time).
RECOLLECT_INLINE void FetchAhead(const Block& block, int64_t g) {
  const uint8_t* line = block.ahead + g * block.bytes_ahead;
  const uint8_t* const end = line + block.bytes_ahead;
  for (; line < end; line += kQuantLine) _mm_prefetch(line, _MM_HINT_T0);
}

// Integer sums of a block over the numbers of one scale.
using Sums = int32_t[kTileRows * kQuantPanel];

// Starts the sums of group `g`. Of two groups one after the other kTile differs, so that they do
// not wait for each other.
template <PanelLayout kLayout, int kTile>
RECOLLECT_INLINE void MultiplyGroup(const Block& block, int64_t g, Sums* sums) {
  const int8_t* codes = block.codes + g * kQuantGroup;
  const uint8_t* quads = block.quads + g * kUnpackedBytes;
#pragma GCC unroll 2
  for (int s = 0; s < kLayout.scales; ++s) {
    if constexpr (kTile == 0) {
      _tile_loadd(2, codes, block.groups * kQuantGroup);
      _tile_loadd(4, quads, kQuantLine);
      _tile_zero(0);
      _tile_dpbssd(0, 2, 4);
      _tile_stored(0, sums[s], kQuantLine);
    } else {
      _tile_loadd(3, codes, block.groups * kQuantGroup);
      _tile_loadd(5, quads, kQuantLine);
      _tile_zero(1);
      _tile_dpbssd(1, 3, 5);
      _tile_stored(1, sums[s], kQuantLine);
    }
    codes += kQuantGroup / 2;
    quads += kUnpackedBytes / 2;
  }
}

// Adds what group `g` gives to y of the 16 rows.
template <PanelLayout kLayout>
RECOLLECT_INLINE void AddTileGroup(const Block& block, int64_t g, const Sums* sums,
                                   Vec y[kTileRows]) {
  const GroupScales scales =
      LoadScales<kLayout>(block.units + g / kLayout.groups * kLayout.unit_bytes,
                          static_cast<int>(g % kLayout.groups), 0);
  const QuantGroup* x = block.scales + g;
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    const Vec scale = Set(x[r * block.groups].scale);
#pragma GCC unroll 2
    for (int s = 0; s < kLayout.scales; ++s) {
      const Vec dots = ToFloats(LoadInts(sums[s] + r * kQuantPanel));
      y[r] = Fma(dots, Mul(scale, scales.scale[s]), y[r]);
    }
    if constexpr (kLayout.minima) y[r] = Fma(Set(x[r * block.groups].sum), scales.minimum, y[r]);
  }
}

// The unit multiplies one group while vectors add what it found for the group before.
template <PanelLayout kLayout>
RECOLLECT_INLINE void MultiplyBlock(const Block& block, Vec y[kTileRows]) {
  alignas(64) Sums sums[2][kLayout.scales];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) y[r] = Zero();
  MultiplyGroup<kLayout, 0>(block, 0, sums[0]);
  for (int64_t g = 0; g < block.groups; g += 2) {
    FetchAhead(block, g);
    if (g + 1 < block.groups) MultiplyGroup<kLayout, 1>(block, g + 1, sums[1]);
    AddTileGroup<kLayout>(block, g, sums[0], y);
    if (g + 1 >= block.groups) break;
    FetchAhead(block, g + 1);
    if (g + 2 < block.groups) MultiplyGroup<kLayout, 0>(block, g + 2, sums[0]);
    AddTileGroup<kLayout>(block, g + 1, sums[1], y);
  }
}

template <QuantFormat kFormat>
void MultiplyFormat(const QuantPanels& panels, const QuantInput& x, float* y, int64_t stride,
                    uint8_t* scratch) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  const int64_t groups = x.k / kQuantGroup;
  const uint8_t* panel = panels.bytes;
  const int64_t panel_bytes = groups / kLayout.groups * kLayout.unit_bytes;
  // Of the next panel, to fetch during a group of a block.
  const int64_t blocks = (x.rows + kTileRows - kFewestTileRows) / kTileRows;
  const int64_t share = blocks > 0 ? (panel_bytes / blocks + groups - 1) / groups : 0;
  _tile_loadconfig(&kConfigs[kLayout.scales - 1]);
  for (int64_t j = 0; j < panels.outputs; j += kQuantPanel) {
    const int64_t left = panels.outputs - j;
    const int outputs = static_cast<int>(left < kQuantPanel ? left : kQuantPanel);
    if (x.rows >= kFewestTileRows) UnpackPanel<kLayout>(panel, groups, kLayout.zero, scratch);
    // The intrinsics do not say that they read memory.
    __asm__ volatile("" ::: "memory");
    int64_t r = 0;
    for (; r + kFewestTileRows <= x.rows; r += kTileRows) {
      Vec sum[kTileRows];
      MultiplyBlock<kLayout>({panel, scratch, x.codes + r * x.k, x.groups + r * groups, groups,
                              panel + panel_bytes + r / kTileRows * groups * share, share},
                             sum);
#pragma GCC unroll 16
      for (int i = 0; i < kTileRows; ++i) {
        if (r + i < x.rows) StoreFirst(y + (r + i) * stride + j, sum[i], outputs);
      }
    }
    MultiplyPanel<kLayout>(panel, x, r, y + j, stride, outputs, scratch);
    panel += panel_bytes;
  }
  _tile_release();
}

}  // namespace

void MultiplyQuantByTiles(const QuantPanels& panels, const QuantInput& x, float* y, int64_t stride,
                          uint8_t* scratch) {
  WithFormat(panels.format, [&]<QuantFormat kFormat>() {
    MultiplyFormat<kFormat>(panels, x, y, stride, scratch);
  });
}

}  // namespace recollect::kernels::avx512
