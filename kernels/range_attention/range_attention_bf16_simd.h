// The codes of attention over a cache in bf16 share tiles of packed keys and values, and a softmax
// that is kept as it goes from tile to tile of 64 entries (FlashAttention, Dao et al. 2022,
// algorithm 1): a higher score scales down what was summed before it. Which other queries walk
// along changes no bit: an entry that a query does not attend to has the weight 0 for it.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/range_attention/range_attention_bf16.h"

namespace recollect::kernels::avx512 {

constexpr ScratchName kBlock;
inline constexpr int kTile = 64;
inline constexpr int kKeyVecs = kTile / kLanes;
// Lower than any score, and yet a number: the difference of two of them is 0.
inline constexpr float kNoScore = -1e30f;

using Bits = __m512i;

RECOLLECT_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
RECOLLECT_INLINE int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }

struct Range {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
};

// Holds what one query has summed: weighted values, by lane the weights, and the highest score.
template <int kDim>
struct Sums {
  alignas(64) float values[kDim];
  alignas(64) float weights[kLanes];
  float highest;
};
static_assert(sizeof(Sums<64>) == SpanSumsFloats(64) * sizeof(float));

// The keys and values of a tile: [key vector][pair of channels][16 keys][2], and
// [pair of entries][kDim][2].
template <int kDim>
struct PackedTile {
  alignas(64) uint16_t keys[kKeyVecs][kDim / 2][kLanes][2];
  alignas(64) uint16_t values[kTile / 2][kDim][2];
};

RECOLLECT_INLINE void Transpose(Bits r[16]) {
  Bits t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

// Rows of the cache, `stride` numbers apart, of one key-value head.
struct CacheRows {
  const uint16_t* keys;
  const uint16_t* values;
  int64_t stride;
};

// Loads 32 channels from d on of row `entry`, or zeros outside `needed`; with kWhole nothing is.
template <bool kWhole>
RECOLLECT_INLINE Bits LoadRow(const uint16_t* rows, int64_t stride, int64_t entry, int d,
                              Range needed) {
  const bool has = kWhole || (entry >= needed.begin && entry < needed.end);
  return has ? _mm512_loadu_si512(rows + entry * stride + d) : _mm512_setzero_si512();
}

// Packs 16 keys of a tile from `first` on. Those outside `needed` become 0.
template <int kDim, bool kWhole>
RECOLLECT_INLINE void PackKeys(PackedTile<kDim>& tile, int v, const CacheRows& cache, int64_t first,
                               Range needed) {
  for (int d = 0; d < kDim; d += 2 * kLanes) {
    Bits rows[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      rows[i] = LoadRow<kWhole>(cache.keys, cache.stride, first + i, d, needed);
    }
    Transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) _mm512_store_si512(tile.keys[v][d / 2 + i], rows[i]);
  }
}

// Packs 8 pairs of values of a tile from `first` on. Those outside `needed` become 0.
template <int kDim, bool kWhole>
RECOLLECT_INLINE void PackValues(PackedTile<kDim>& tile, int v, const CacheRows& cache,
                                 int64_t first, Range needed) {
  // Interleaves two rows of 32 channels: a0 b0 a1 b1 …, first of 16 channels, then of the others.
  const Bits step = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const Bits second = _mm512_add_epi32(step, _mm512_set1_epi32(2 * kLanes));
  const Bits low = _mm512_or_si512(step, _mm512_slli_epi32(second, 16));
  const Bits high = _mm512_add_epi32(low, _mm512_set1_epi32(0x00100010));
  for (int j = 0; j < kLanes; j += 2) {
    auto& pair = tile.values[(v * kLanes + j) / 2];
#pragma GCC unroll 4
    for (int d = 0; d < kDim; d += 2 * kLanes) {
      const Bits a = LoadRow<kWhole>(cache.values, cache.stride, first + j, d, needed);
      const Bits b = LoadRow<kWhole>(cache.values, cache.stride, first + j + 1, d, needed);
      _mm512_store_si512(pair[d], _mm512_permutex2var_epi16(a, low, b));
      _mm512_store_si512(pair[d + kLanes], _mm512_permutex2var_epi16(a, high, b));
    }
  }
}

// The part of `range` that lies in the tile whose entry 0 is `entry`.
RECOLLECT_INLINE Range InTile(Range range, int64_t entry) {
  return {Most(range.begin - entry, 0), Least(range.end - entry, kTile)};
}

// Packs the values, and with kKeys the keys, of the tile whose entry 0 is `entry` of the part: of
// every kTogether entries of which some are needed. Those outside `needed` become 0.
template <int kDim, int kTogether, bool kKeys>
RECOLLECT_INLINE void Pack(PackedTile<kDim>& tile, const CacheRows& cache, int64_t entry,
                           Range needed) {
  const Range here = InTile(needed, entry);
  for (int v = 0; v < kKeyVecs; ++v) {
    const int some = v * kLanes / kTogether * kTogether;
    if (some >= here.end || some + kTogether <= here.begin) continue;
    const int64_t first = entry + static_cast<int64_t>(v) * kLanes;
    if (first >= needed.begin && first + kLanes <= needed.end) {
      if constexpr (kKeys) PackKeys<kDim, true>(tile, v, cache, first, needed);
      PackValues<kDim, true>(tile, v, cache, first, needed);
    } else {
      if constexpr (kKeys) PackKeys<kDim, false>(tile, v, cache, first, needed);
      PackValues<kDim, false>(tile, v, cache, first, needed);
    }
  }
}

template <int kDim>
RECOLLECT_INLINE void Begin(Sums<kDim>& sums) {
  for (int d = 0; d < kDim; d += kLanes) Store(sums.values + d, Zero());
  Store(sums.weights, Zero());
  sums.highest = kNoScore;
}

// Rounds query i of the call to bf16.
template <int kDim>
RECOLLECT_INLINE void RoundQuery(const SpanCall& call, int64_t i, uint16_t* to) {
  const int group = call.shape->heads / call.shape->kv_heads;
  const int64_t row = (call.begin + i) / group, head = (call.begin + i) % group;
  const float* q = call.q + row * call.q_stride + (call.kv_head * group + head) * kDim;
  for (int d = 0; d < kDim; d += kLanes) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + d),
                       reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(Load(q + d))));
  }
}

// The number, in its part, of the entry with which the call's span begins; may be negative.
RECOLLECT_INLINE int64_t SpanBegin(const SpanCall& call) {
  return call.span * kSpanEntries - call.part->first;
}

// Entries of the span to which query i attends.
RECOLLECT_INLINE Range RangeOf(const SpanCall& call, int64_t i) {
  const int64_t row = (call.begin + i) / (call.shape->heads / call.shape->kv_heads);
  const int64_t* bounds = call.bounds + row * call.bounds_stride;
  return {Most(bounds[0], SpanBegin(call)), Least(bounds[1], SpanBegin(call) + kSpanEntries)};
}

// The scratch memory that a block is in.
template <typename Block>
RECOLLECT_INLINE Block& BlockOf(OpContext& ctx) {
  return *reinterpret_cast<Block*>(ctx.Floats(kBlock, sizeof(Block) / sizeof(float)));
}

// Rounds all queries of a block (q, range, sums, count), and returns which entries they need
// together.
template <int kDim, typename Block>
RECOLLECT_INLINE Range BeginBlock(const SpanCall& call, float* sums, Block& block) {
  block.count = static_cast<int>(call.end - call.begin);
  block.sums = reinterpret_cast<Sums<kDim>*>(sums);
  Range needed{INT64_MAX, INT64_MIN};
  for (int i = 0; i < block.count; ++i) {
    RoundQuery<kDim>(call, i, block.q[i]);
    Begin(block.sums[i]);
    const Range range = block.range[i] = RangeOf(call, i);
    if (range.empty()) continue;
    needed = {Least(needed.begin, range.begin), Most(needed.end, range.end)};
  }
  return needed;
}

RECOLLECT_INLINE CacheRows RowsOf(const SpanCall& call) {
  const int head_dim = call.shape->head_dim;
  const int64_t offset = static_cast<int64_t>(call.kv_head) * head_dim;
  return {reinterpret_cast<const uint16_t*>(call.part->keys) + offset,
          reinterpret_cast<const uint16_t*>(call.part->values) + offset,
          static_cast<int64_t>(call.shape->kv_heads) * head_dim};
}

// The number of the first entry of the first tile that is needed. Tiles are numbered from the
// span's beginning.
RECOLLECT_INLINE int64_t FirstTile(const SpanCall& call, Range needed) {
  return needed.begin - (needed.begin - SpanBegin(call)) % kTile;
}

}  // namespace recollect::kernels::avx512
