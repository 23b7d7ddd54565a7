// One span of attention over a cache in bf16 on AMX: 16 queries times 16 keys, and their weights
// times 16 channels, 32 numbers at a time. A tile register sums the even numbers of a row and the
// odd ones each in a chain of fused fp32 sums, adds both, and takes denormal numbers for 0. Rows of
// a register do not meet, so a row alone has the bits that it has among others. What a query has
// summed is scaled and added to by vectors, and only where it attends to an entry of the tile: as
// the start of a product a register would make its denormal numbers 0.
#include "kernels/cpu/tile_config.h"
#include "kernels/range_attention/range_attention_bf16_simd.h"

namespace recollect::kernels::avx512 {
namespace {

constexpr int kTogether = kTileQueryStep;
constexpr int kDepth = 2 * kLanes;  // numbers that are summed at once
constexpr int kHalves = kTile / kHalfTile;
constexpr int kFew = 4;    // queries whose keys need no packing
constexpr int kLine = 64;  // bytes of a row of a register

// Registers 0 to 3 are sums, 4 the queries or weights, 5 and 6 keys or values.
consteval TileConfig ConfigOfMany(int queries) {
  TileConfig config;
  for (int t = 0; t < 7; ++t) config.Set(t, t < 5 ? queries : kLanes, kLine);
  return config;
}

// Registers 0 and 1 are products [16 keys][kFew], 2 and 3 sums of values, 4 the weights, 5 and 6
// keys [16][32] or values, 7 the queries [16 pairs][kFew].
consteval TileConfig ConfigOfFew(int queries) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.Set(t, t >= 2 && t <= 4 ? queries : kLanes, kLine);
  for (const int t : {0, 1, 7}) config.Set(t, kLanes, kFew * sizeof(float));
  return config;
}

alignas(64) constexpr TileConfig kConfigsOfFew[kFew] = {ConfigOfFew(1), ConfigOfFew(2),
                                                        ConfigOfFew(3), ConfigOfFew(4)};
// By the fours of queries.
alignas(64) constexpr TileConfig kConfigs[] = {ConfigOfMany(4), ConfigOfMany(8), ConfigOfMany(12),
                                               ConfigOfMany(16)};

// The intrinsics do not say that they read memory.
RECOLLECT_INLINE void WrittenForTiles() { __asm__ volatile("" ::: "memory"); }

// Queries of one key-value head at one tile.
template <int kDim>
struct Block {
  int count;
  Sums<kDim>* sums;          // [count, rounded up to kTogether]
  Range range[kMaxQueries];  // entries of the part
  alignas(64) float highest[kMaxQueries];
  alignas(64) uint16_t q[kMaxQueries][kDim];
  PackedTile<kDim> tile;
  alignas(64) float products[kTogether][kTile];
  alignas(64) uint16_t weights[kTogether][kTile];
  alignas(64) float values[kTogether][kDim];  // that the tile adds
  // For few queries: [pair of channels][kFew][2], keys as they are, and what they give.
  alignas(64) uint16_t few_q[kDim / 2][kFew][2];
  alignas(64) uint16_t few_keys[kLanes][kDim];
  alignas(64) float few_products[kLanes][kFew];
};

// products[r][32 h ..] of 16 queries from `first` on.
template <int kDim, int kHalf>
RECOLLECT_INLINE void MultiplyKeys(Block<kDim>& block, int first) {
  constexpr int kVec = 2 * kHalf;
  float* to = block.products[0] + kVec * kLanes;
  constexpr int kToStride = kTile * sizeof(float);
  if constexpr (kHalf == 0) {
    _tile_zero(0);
    _tile_zero(1);
  } else {
    _tile_zero(2);
    _tile_zero(3);
  }
#pragma GCC unroll 4
  for (int d = 0; d < kDim; d += kDepth) {
    _tile_loadd(4, block.q[first] + d, kDim * sizeof(uint16_t));
    _tile_loadd(5, block.tile.keys[kVec][d / 2], kLine);
    _tile_loadd(6, block.tile.keys[kVec + 1][d / 2], kLine);
    if constexpr (kHalf == 0) {
      _tile_dpbf16ps(0, 4, 5);
      _tile_dpbf16ps(1, 4, 6);
    } else {
      _tile_dpbf16ps(2, 4, 5);
      _tile_dpbf16ps(3, 4, 6);
    }
  }
  if constexpr (kHalf == 0) {
    _tile_stored(0, to, kToStride);
    _tile_stored(1, to + kLanes, kToStride);
  } else {
    _tile_stored(2, to, kToStride);
    _tile_stored(3, to + kLanes, kToStride);
  }
}

// products[r] of the few queries with 16 keys, `stride` numbers apart.
template <int kDim>
RECOLLECT_INLINE void MultiplyFew(Block<kDim>& block, int v, const uint16_t* keys, int64_t stride) {
  _tile_zero(0);
#pragma GCC unroll 4
  for (int d = 0; d < kDim; d += kDepth) {
    _tile_loadd(5, keys + d, stride * static_cast<int64_t>(sizeof(uint16_t)));
    _tile_loadd(7, block.few_q[d / 2], kFew * sizeof(float));
    _tile_dpbf16ps(0, 5, 7);
  }
  _tile_stored(0, block.few_products, kFew * sizeof(float));
  // From [keys][queries] to [queries][keys]: inside four keys, then of fours.
  const Bits inside = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  Vec keys_of[kFew];
#pragma GCC unroll 4
  for (int i = 0; i < kFew; ++i) {
    keys_of[i] = _mm512_permutexvar_ps(inside, Load(block.few_products[kFew * i]));
  }
  const Vec a = _mm512_shuffle_f32x4(keys_of[0], keys_of[1], 0x44);
  const Vec b = _mm512_shuffle_f32x4(keys_of[2], keys_of[3], 0x44);
  const Vec c = _mm512_shuffle_f32x4(keys_of[0], keys_of[1], 0xee);
  const Vec d = _mm512_shuffle_f32x4(keys_of[2], keys_of[3], 0xee);
  float* to = block.products[0] + v * kLanes;
  Store(to, _mm512_shuffle_f32x4(a, b, 0x88));
  Store(to + kTile, _mm512_shuffle_f32x4(a, b, 0xdd));
  Store(to + 2 * kTile, _mm512_shuffle_f32x4(c, d, 0x88));
  Store(to + 3 * kTile, _mm512_shuffle_f32x4(c, d, 0xdd));
}

// The few queries and the keys of a tile whose entry 0 is `entry` of the part.
template <int kDim>
void MultiplyFew(Block<kDim>& block, const CacheRows& cache, int64_t entry, Range needed) {
  for (int v = 0; v < kKeyVecs; ++v) {
    const int64_t first = entry + static_cast<int64_t>(v) * kLanes;
    if (first >= needed.end || first + kLanes <= needed.begin) continue;
    if (first >= needed.begin && first + kLanes <= needed.end) {
      MultiplyFew(block, v, cache.keys + first * cache.stride, cache.stride);
      continue;
    }
    for (int i = 0; i < kLanes; ++i) {
      for (int d = 0; d < kDim; d += kDepth) {
        _mm512_store_si512(block.few_keys[i] + d,
                           LoadRow<false>(cache.keys, cache.stride, first + i, d, needed));
      }
    }
    WrittenForTiles();
    MultiplyFew(block, v, block.few_keys[0], kDim);
  }
}

// values[r] of 16 queries: weights times values of the halves in which `range` has entries.
template <int kDim>
RECOLLECT_INLINE void MultiplyValues(Block<kDim>& block, Range range) {
#pragma GCC unroll 4
  for (int d = 0; d < kDim; d += kDepth) {
    _tile_zero(2);
    _tile_zero(3);
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      if (!NeedsHalf(range, h)) continue;
      auto& values = block.tile.values[h * kLanes];
      _tile_loadd(4, block.weights[0] + h * kHalfTile, kTile * sizeof(uint16_t));
      _tile_loadd(5, values[d], kDim * 2 * sizeof(uint16_t));
      _tile_loadd(6, values[d + kLanes], kDim * 2 * sizeof(uint16_t));
      _tile_dpbf16ps(2, 4, 5);
      _tile_dpbf16ps(3, 4, 6);
    }
    _tile_stored(2, block.values[0] + d, kDim * sizeof(float));
    _tile_stored(3, block.values[0] + d + kLanes, kDim * sizeof(float));
  }
}

// kCount queries from `first` on have been multiplied with the keys of a tile and meet its values.
template <int kDim, int kCount>
RECOLLECT_INLINE void MeetValues(Block<kDim>& block, int first, const Ranges& ranges) {
  alignas(64) float factors[kLanes];
  Weigh<kDim, kCount>(block, first, ranges, factors);
  WrittenForTiles();
  MultiplyValues(block, ranges.together);
  for (int r = 0; r < kCount; ++r) {
    if ((ranges.some >> r & 1) == 0) continue;
    float* sums = block.sums[first + r].values;
    const Vec factor = Set(factors[r]);
#pragma GCC unroll 8
    for (int d = 0; d < kDim; d += kLanes) {
      Store(sums + d, Fma(Load(sums + d), factor, Load(block.values[r] + d)));
    }
  }
}

template <int kDim>
void MeetTile(Block<kDim>& block, int64_t entry) {
  for (int first = 0; first < block.count; first += kTogether) {
    const auto count = static_cast<int>(Least(block.count - first, kTogether));
    const Ranges ranges = RangesIn(block, first, count, entry);
    if (ranges.together.empty()) continue;
    if (NeedsHalf(ranges.together, 0)) MultiplyKeys<kDim, 0>(block, first);
    if (NeedsHalf(ranges.together, 1)) MultiplyKeys<kDim, 1>(block, first);
    if (count <= 4) {
      MeetValues<kDim, 4>(block, first, ranges);
    } else if (count <= 8) {
      MeetValues<kDim, 8>(block, first, ranges);
    } else {
      MeetValues<kDim, kTogether>(block, first, ranges);
    }
  }
}

template <int kDim>
void MeetSpanFew(Block<kDim>& block, const SpanCall& call, Range needed) {
  for (int pair = 0; pair < kDim / 2; ++pair) {
    for (int r = 0; r < kFew; ++r) {
      __builtin_memcpy(block.few_q[pair][r], block.q[r] + 2 * pair, sizeof(float));
    }
  }
  _tile_loadconfig(&kConfigsOfFew[block.count - 1]);
  const CacheRows cache = RowsOf(call);
  for (int64_t entry = FirstTile(call, needed); entry < needed.end; entry += kTile) {
    Pack<kDim, false>(block.tile, cache, entry, needed);
    WrittenForTiles();
    MultiplyFew(block, cache, entry, needed);
    MeetValues<kDim, kFew>(block, 0, RangesIn(block, 0, block.count, entry));
  }
}

template <int kDim>
void MeetSpan(Block<kDim>& block, const SpanCall& call, Range needed) {
  _tile_loadconfig(&kConfigs[(Least(block.count, kTogether) - 1) / 4]);
  const CacheRows cache = RowsOf(call);
  for (int64_t entry = FirstTile(call, needed); entry < needed.end; entry += kTile) {
    Pack<kDim, true>(block.tile, cache, entry, needed);
    WrittenForTiles();
    MeetTile(block, entry);
  }
}

template <int kDim>
void Attend(OpContext& ctx, const SpanCall& call, float* sums) {
  auto& block = BlockOf<Block<kDim>>(ctx);
  const Range needed = BeginBlock<kDim>(call, sums, block);
  if (needed.empty()) return;
  for (int i = 0; i < kMaxQueries; i += kLanes) Store(block.highest + i, Set(kNoScore));
  if (block.count <= kFew) {
    MeetSpanFew(block, call, needed);
  } else {
    MeetSpan(block, call, needed);
  }
  _tile_release();
  for (int i = 0; i < block.count; ++i) block.sums[i].highest = block.highest[i];
}

}  // namespace

void AttendSpanByTiles(OpContext& ctx, const SpanCall& call, float* sums) {
  call.shape->head_dim == 64 ? Attend<64>(ctx, call, sums) : Attend<128>(ctx, call, sums);
}

}  // namespace recollect::kernels::avx512
