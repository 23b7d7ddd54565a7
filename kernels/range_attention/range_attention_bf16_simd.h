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
// A half of a tile that no query needs is left out.
inline constexpr int kHalfTile = kTile / 2;
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

// Rows of the cache, `stride` numbers apart, of one key-value head. What is `ahead` numbers further
// is asked of memory while they are packed; 0: nothing.
struct CacheRows {
  const uint16_t* keys;
  const uint16_t* values;
  int64_t stride;
  int64_t ahead = 0;
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
      __builtin_prefetch(cache.keys + (first + i) * cache.stride + cache.ahead + d);
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
      const uint16_t* ahead = cache.values + (first + j) * cache.stride + cache.ahead + d;
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + cache.stride);
      const Bits a = LoadRow<kWhole>(cache.values, cache.stride, first + j, d, needed);
      const Bits b = LoadRow<kWhole>(cache.values, cache.stride, first + j + 1, d, needed);
      _mm512_store_si512(pair[d], _mm512_permutex2var_epi16(a, low, b));
      _mm512_store_si512(pair[d + kLanes], _mm512_permutex2var_epi16(a, high, b));
    }
  }
}

// Whether `range` of a tile has entries of its half h.
RECOLLECT_INLINE bool NeedsHalf(Range range, int h) {
  return range.begin < (h + 1) * kHalfTile && range.end > h * kHalfTile;
}

// The part of `range` that lies in the tile whose entry 0 is `entry`.
RECOLLECT_INLINE Range InTile(Range range, int64_t entry) {
  return {Most(range.begin - entry, 0), Least(range.end - entry, kTile)};
}

// Packing asks memory for what is so many entries further: half as many and twice as many are
// worse.
constexpr int kAheadEntries = 32;

// Packs the values, and with kKeys the keys, of the tile whose entry 0 is `entry` of the part: of
// each half of which some are needed. Those outside `needed` become 0.
template <int kDim, bool kKeys>
RECOLLECT_INLINE void Pack(PackedTile<kDim>& tile, CacheRows cache, int64_t entry, Range needed) {
  const Range here = InTile(needed, entry);
  for (int v = 0; v < kKeyVecs; ++v) {
    if (!NeedsHalf(here, v * kLanes / kHalfTile)) continue;
    const int64_t first = entry + static_cast<int64_t>(v) * kLanes;
    cache.ahead = first + kAheadEntries + kLanes <= needed.end ? kAheadEntries * cache.stride : 0;
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

// Rounds one query of the call to bf16: a head of a row.
template <int kDim>
RECOLLECT_INLINE void RoundQuery(const SpanCall& call, int64_t row, int64_t head, uint16_t* to) {
  const float* q = call.q + row * call.q_stride + head * kDim;
  for (int d = 0; d < kDim; d += kLanes) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + d),
                       reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(Load(q + d))));
  }
}

// The number, in its part, of the entry with which the call's span begins; may be negative.
RECOLLECT_INLINE int64_t SpanBegin(const SpanCall& call) {
  return call.span * kSpanEntries - call.part->first;
}

// Entries of the span to which the queries of a row attend.
RECOLLECT_INLINE Range RangeOf(const SpanCall& call, int64_t row) {
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
  const int64_t group = call.shape->heads / call.shape->kv_heads;
  int64_t row = call.begin / group, of_group = call.begin % group;
  for (int i = 0; i < block.count; ++i, ++of_group) {
    if (of_group == group) ++row, of_group = 0;
    RoundQuery<kDim>(call, row, call.kv_head * group + of_group, block.q[i]);
    Begin(block.sums[i]);
    const Range range = block.range[i] = RangeOf(call, row);
    if (range.empty()) continue;
    needed = {Least(needed.begin, range.begin), Most(needed.end, range.end)};
  }
  return needed;
}

// The ranges of some queries, at most kLanes, in a tile.
struct Ranges {
  uint64_t entries[kLanes];  // of the tile, that a query attends to
  Range together;
  __mmask16 some;  // queries with entries in the tile
  bool whole;      // whether all of them have all entries
};
template <typename Block>
RECOLLECT_INLINE Ranges RangesIn(const Block& block, int first, int count, int64_t entry) {
  Ranges ranges;
  ranges.together = {kTile, 0};
  ranges.some = 0;
  ranges.whole = true;
  for (int r = 0; r < kLanes; ++r) {
    ranges.entries[r] = 0;
    if (r >= count) continue;
    const Range here = InTile(block.range[first + r], entry);
    ranges.whole &= here.begin == 0 && here.end == kTile;
    if (here.empty()) continue;
    ranges.entries[r] = ~uint64_t{0} >> (kTile - (here.end - here.begin)) << here.begin;
    ranges.some = static_cast<__mmask16>(ranges.some | 1u << r);
    ranges.together = {Least(ranges.together.begin, here.begin),
                       Most(ranges.together.end, here.end)};
  }
  return ranges;
}

// The lanes of key vector v to which query r attends.
template <bool kWhole>
RECOLLECT_INLINE __mmask16 LanesOf(const Ranges& ranges, int r, int v) {
  return static_cast<__mmask16>(kWhole ? 0xffff : ranges.entries[r] >> (v * kLanes));
}

// Its highest products with key vectors v and v + 1, by lane.
template <bool kWhole, typename Block>
RECOLLECT_INLINE Vec BestOf(const Block& block, int r, int v, const Ranges& ranges) {
  const float* products = block.products[r] + v * kLanes;
  const Vec none = Set(kNoScore);
  return Max(_mm512_mask_loadu_ps(none, LanesOf<kWhole>(ranges, r, v), products),
             _mm512_mask_loadu_ps(none, LanesOf<kWhole>(ranges, r, v + 1), products + kLanes));
}

// e^x for x that is at most about 0; 5e-38 where that would not be a normal number, which takes a
// hundred times as long.
RECOLLECT_INLINE Vec ExpOrTiny(Vec x) { return ExpWithin(Max(Set(-86.0f), x)); }

// Its weights with key vector v.
template <bool kWhole, typename Block>
RECOLLECT_INLINE Vec WeightsOf(const Block& block, int r, int v, const Ranges& ranges, Vec scale,
                               Vec shift) {
  const Vec products = Load(block.products[r] + v * kLanes);
  if constexpr (kWhole) return ExpOrTiny(Fma(products, scale, shift));
  const __mmask16 lanes = LanesOf<kWhole>(ranges, r, v);
  return _mm512_maskz_mov_ps(lanes, ExpOrTiny(Fma(products, scale, shift)));
}

template <int kDim, int kCount, bool kWhole, typename Block>
RECOLLECT_INLINE void WeighAll(Block& block, int first, const Ranges& ranges, float* factors) {
  const Vec scale = Set(1.0f / __builtin_sqrtf(static_cast<float>(kDim)));
  Vec best[kLanes];
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r) {
    best[r] = Set(kNoScore);
    if (r >= kCount) continue;
#pragma GCC unroll 2
    for (int v = 0; v < kKeyVecs; v += 2) {
      if (kWhole || NeedsHalf(ranges.together, v / 2)) {
        best[r] = Max(best[r], BestOf<kWhole>(block, r, v, ranges));
      }
    }
  }
  const Vec bests = kCount == 1 ? Set(MaxOf(best[0])) : HighestOf(best);
  // Nothing changes for a query without entries here.
  const Vec before = Load(block.highest + first);
  const Vec highest = _mm512_mask_max_ps(before, ranges.some, before, Mul(bests, scale));
  Store(block.highest + first, highest);
  alignas(64) float shifts[kLanes];
  Store(shifts, Sub(Zero(), highest));
  Store(factors, ExpOrTiny(Sub(before, highest)));
  for (int r = 0; r < kCount; ++r) {
    float* weights = block.sums[first + r].weights;
    const Vec shift = Set(shifts[r]);
    Vec total = Mul(Load(weights), Set(factors[r]));
#pragma GCC unroll 2
    for (int v = 0; v < kKeyVecs; v += 2) {
      if (!kWhole && !NeedsHalf(ranges.together, v / 2)) continue;
      const Vec a = WeightsOf<kWhole>(block, r, v, ranges, scale, shift);
      const Vec b = WeightsOf<kWhole>(block, r, v + 1, ranges, scale, shift);
      total = Add(total, Add(a, b));
      _mm512_store_si512(block.weights[r] + v * kLanes,
                         reinterpret_cast<Bits>(_mm512_cvtne2ps_pbh(b, a)));
    }
    Store(weights, total);
  }
}

// Makes the weights of kCount queries from `first` on (weights, sums, highest), whose products with
// the keys of a tile are known, and writes by how much to scale the values that each has summed
// before. `factors` has room for kLanes.
template <int kDim, int kCount, typename Block>
RECOLLECT_INLINE void Weigh(Block& block, int first, const Ranges& ranges, float* factors) {
  if (ranges.whole) {
    WeighAll<kDim, kCount, true>(block, first, ranges, factors);
  } else {
    WeighAll<kDim, kCount, false>(block, first, ranges, factors);
  }
}

RECOLLECT_INLINE CacheRows RowsOf(const SpanCall& call) {
  const Bf16KvSpan& part = *call.part;
  const int64_t dim = call.shape->head_dim;
  const int64_t heads = part.head_stride != 0 ? 1 : call.shape->kv_heads;
  const int64_t offset = call.kv_head * (part.head_stride != 0 ? part.head_stride : dim);
  return {reinterpret_cast<const uint16_t*>(part.keys) + offset,
          reinterpret_cast<const uint16_t*>(part.values) + offset, heads * dim};
}

// The number of the first entry of the first tile that is needed. Tiles are numbered from the
// span's beginning.
RECOLLECT_INLINE int64_t FirstTile(const SpanCall& call, Range needed) {
  return needed.begin - (needed.begin - SpanBegin(call)) % kTile;
}

}  // namespace recollect::kernels::avx512
