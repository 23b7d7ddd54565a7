// One span of attention over a cache in bf16, by products of pairs (AVX512-BF16). A softmax is kept
// as it goes from tile to tile of 64 entries (FlashAttention, Dao et al. 2022, algorithm 1): a
// higher score scales down what was summed before it. Which other queries walk along changes no
// bit: an entry that a query does not attend to has the weight 0 for it.
#include "kernels/cpu/simd.h"
#include "kernels/range_attention/range_attention_bf16.h"

namespace recollect::kernels::avx512 {
namespace {

constexpr int kSlotBlock = kFirstKernelSlot + 4;
constexpr int kTile = 64;
constexpr int kKeyVecs = kTile / kLanes;
constexpr int kQueries = kSpanQueries;
constexpr int kTogether = kSpanQueryStep;
// Lower than any score, and yet a number: the difference of two of them is 0.
constexpr float kNoScore = -1e30f;

using Bits = __m512i;

RECOLLECT_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
RECOLLECT_INLINE int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }
RECOLLECT_INLINE Vec AddProducts(Vec sum, Bits a, Bits b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
RECOLLECT_INLINE Bits PairEverywhere(const uint16_t* pair) {
  int32_t bits;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  return _mm512_set1_epi32(bits);
}

struct Range {
  int64_t begin, end;
  bool empty() const { return begin >= end; }
};

// What one query has summed: weighted values, by lane the weights, and the highest score.
template <int kDim>
struct Sums {
  alignas(64) float values[kDim];
  alignas(64) float weights[kLanes];
  float highest;
};
static_assert(sizeof(Sums<64>) == SpanSumsFloats(64) * sizeof(float));

// Queries of one key-value head at one tile.
template <int kDim>
struct Block {
  int count;
  Sums<kDim>* sums;       // [count, rounded up to kTogether]
  Range range[kQueries];  // entries of the part
  alignas(64) uint16_t q[kQueries][kDim];
  // [key vector][pair of channels][16 keys][2], and [pair of entries][kDim][2].
  alignas(64) uint16_t keys[kKeyVecs][kDim / 2][kLanes][2];
  alignas(64) uint16_t values[kTile / 2][kDim][2];
  alignas(64) float scores[kTogether][kTile];
  alignas(64) uint16_t weights[kTogether][kTile];
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

// Packs 16 keys of a tile from `first` on, and 8 pairs of values. Those outside `needed` become 0;
// with kWhole there are none.
template <int kDim, bool kWhole>
RECOLLECT_INLINE void PackVector(Block<kDim>& block, int v, const uint16_t* keys,
                                 const uint16_t* values, int64_t stride, int64_t first,
                                 Range needed) {
  const auto load = [&](const uint16_t* rows, int i, int d) {
    const bool has = kWhole || (first + i >= needed.begin && first + i < needed.end);
    return has ? _mm512_loadu_si512(rows + (first + i) * stride + d) : _mm512_setzero_si512();
  };
  for (int d = 0; d < kDim; d += 2 * kLanes) {
    Bits rows[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = load(keys, i, d);
    Transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) _mm512_store_si512(block.keys[v][d / 2 + i], rows[i]);
  }
  // Of two rows of 32 channels: a0 b0 a1 b1 …, first of 16 channels, then of the others.
  const Bits step = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const Bits second = _mm512_add_epi32(step, _mm512_set1_epi32(2 * kLanes));
  const Bits low = _mm512_or_si512(step, _mm512_slli_epi32(second, 16));
  const Bits high = _mm512_add_epi32(low, _mm512_set1_epi32(0x00100010));
  for (int j = 0; j < kLanes; j += 2) {
    auto& pair = block.values[(v * kLanes + j) / 2];
#pragma GCC unroll 4
    for (int d = 0; d < kDim; d += 2 * kLanes) {
      const Bits a = load(values, j, d), b = load(values, j + 1, d);
      _mm512_store_si512(pair[d], _mm512_permutex2var_epi16(a, low, b));
      _mm512_store_si512(pair[d + kLanes], _mm512_permutex2var_epi16(a, high, b));
    }
  }
}

// Packs the keys and values of a tile whose entry 0 is `entry` of the part.
template <int kDim>
void Pack(Block<kDim>& block, const uint16_t* keys, const uint16_t* values, int64_t stride,
          int64_t entry, Range needed) {
  for (int v = 0; v < kKeyVecs; ++v) {
    const int64_t first = entry + static_cast<int64_t>(v) * kLanes;
    if (first >= needed.end || first + kLanes <= needed.begin) continue;
    if (first >= needed.begin && first + kLanes <= needed.end) {
      PackVector<kDim, true>(block, v, keys, values, stride, first, needed);
    } else {
      PackVector<kDim, false>(block, v, keys, values, stride, first, needed);
    }
  }
}

// scores[r][16 v ..] of kRows queries from `first` on, for kVecs key vectors from v on.
template <int kDim, int kRows, int kVecs>
void Score(Block<kDim>& block, int first, int v) {
  Vec sums[kRows][kVecs];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int u = 0; u < kVecs; ++u) sums[r][u] = Zero();
  }
  for (int pair = 0; pair < kDim / 2; ++pair) {
    Bits keys[kVecs];
#pragma GCC unroll 4
    for (int u = 0; u < kVecs; ++u) keys[u] = _mm512_load_si512(block.keys[v + u][pair]);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const Bits q = PairEverywhere(block.q[first + r] + 2 * pair);
#pragma GCC unroll 4
      for (int u = 0; u < kVecs; ++u) sums[r][u] = AddProducts(sums[r][u], q, keys[u]);
    }
  }
  const Vec scale = Set(1.0f / __builtin_sqrtf(static_cast<float>(kDim)));
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int u = 0; u < kVecs; ++u) {
      Store(block.scores[r] + (v + u) * kLanes, Mul(sums[r][u], scale));
    }
  }
}

// Lanes of key vector v that lie in `range` of the tile.
RECOLLECT_INLINE __mmask16 LanesOf(Range range, int v) {
  const int64_t begin = Most(range.begin - static_cast<int64_t>(v) * kLanes, 0);
  const int64_t end = Least(range.end - static_cast<int64_t>(v) * kLanes, kLanes);
  if (begin >= end) return 0;
  return static_cast<__mmask16>(((1u << end) - 1u) & ~((1u << begin) - 1u));
}

// Makes the weights of one query's scores, those of `range` of the tile, and returns by how much to
// scale the values summed before.
template <int kDim>
RECOLLECT_INLINE float Weigh(const float* scores, Range range, Sums<kDim>& sums,
                             uint16_t* weights) {
  Vec masked[kKeyVecs];
  Vec best = Set(sums.highest);
#pragma GCC unroll 4
  for (int v = 0; v < kKeyVecs; ++v) {
    masked[v] = _mm512_mask_blend_ps(LanesOf(range, v), Set(kNoScore), Load(scores + v * kLanes));
    best = Max(best, masked[v]);
  }
  const float highest = MaxOf(best);
  const Vec shift = Set(highest);
  const Vec factor = Exp(Sub(Set(sums.highest), shift));
  Vec total = Mul(Load(sums.weights), factor);
#pragma GCC unroll 4
  for (int v = 0; v < kKeyVecs; ++v) {
    const Vec weight = Exp(Sub(masked[v], shift));  // 0 where there is no score
    total = Add(total, weight);
    _mm256_store_si256(reinterpret_cast<__m256i*>(weights + v * kLanes),
                       reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(weight)));
  }
  Store(sums.weights, total);
  sums.highest = highest;
  return _mm512_cvtss_f32(factor);
}

// Adds weights times values, over pairs of entries.
template <int kDim, int kRows>
void AddValues(Block<kDim>& block, int first, const float* factors, Range pairs) {
  constexpr int kVecs = 4;
  for (int d = 0; d < kDim; d += kVecs * kLanes) {
    Vec sums[kRows][kVecs];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int u = 0; u < kVecs; ++u) {
        sums[r][u] = Mul(Load(block.sums[first + r].values + d + u * kLanes), Set(factors[r]));
      }
    }
    for (int64_t pair = pairs.begin; pair < pairs.end; ++pair) {
      Bits values[kVecs];
#pragma GCC unroll 4
      for (int u = 0; u < kVecs; ++u) {
        values[u] = _mm512_load_si512(block.values[pair][d + u * kLanes]);
      }
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const Bits weight = PairEverywhere(block.weights[r] + 2 * pair);
#pragma GCC unroll 4
        for (int u = 0; u < kVecs; ++u) sums[r][u] = AddProducts(sums[r][u], weight, values[u]);
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int u = 0; u < kVecs; ++u) {
        Store(block.sums[first + r].values + d + u * kLanes, sums[r][u]);
      }
    }
  }
}

// kRows queries from `first` on meet the packed tile, whose entry 0 is `entry` of the part.
template <int kDim, int kRows>
void MeetTile(Block<kDim>& block, int first, int64_t entry) {
  Range ranges[kRows];
  Range together{kTile, 0};
  for (int r = 0; r < kRows; ++r) {
    ranges[r] = {0, 0};
    if (first + r >= block.count) continue;
    const Range& range = block.range[first + r];
    const Range here{Most(range.begin - entry, 0), Least(range.end - entry, kTile)};
    if (here.empty()) continue;
    ranges[r] = here;
    together = {Least(together.begin, here.begin), Most(together.end, here.end)};
  }
  if (together.empty()) return;
  if (together.begin < kLanes && together.end > kTile - kLanes) {
    Score<kDim, kRows, kKeyVecs>(block, first, 0);
  } else {
    for (auto v = static_cast<int>(together.begin / kLanes); v * kLanes < together.end; ++v) {
      Score<kDim, kRows, 1>(block, first, v);
    }
  }
  float factors[kRows];
  for (int r = 0; r < kRows; ++r) {
    factors[r] = 1.0f;
    if (ranges[r].empty()) {
      for (int e = 0; e < kTile; e += 2 * kLanes) {
        _mm512_store_si512(block.weights[r] + e, _mm512_setzero_si512());
      }
      continue;
    }
    factors[r] = Weigh(block.scores[r], ranges[r], block.sums[first + r], block.weights[r]);
  }
  AddValues<kDim, kRows>(block, first, factors, {together.begin / 2, (together.end + 1) / 2});
}

template <int kDim>
void MeetTile(Block<kDim>& block, int64_t entry) {
  for (int first = 0; first < block.count; first += kTogether) {
    const int left = block.count - first;
    if (left == 1) {
      MeetTile<kDim, 1>(block, first, entry);
    } else if (left <= 3) {
      MeetTile<kDim, 3>(block, first, entry);
    } else {
      MeetTile<kDim, kTogether>(block, first, entry);
    }
  }
}

template <int kDim>
void Begin(Sums<kDim>& sums) {
  for (int d = 0; d < kDim; d += kLanes) Store(sums.values + d, Zero());
  Store(sums.weights, Zero());
  sums.highest = kNoScore;
}

template <int kDim>
void Attend(OpContext& ctx, const SpanCall& call, float* sums) {
  auto& block =
      *reinterpret_cast<Block<kDim>*>(ctx.Floats(kSlotBlock, sizeof(Block<kDim>) / sizeof(float)));
  block.count = static_cast<int>(call.end - call.begin);
  block.sums = reinterpret_cast<Sums<kDim>*>(sums);
  const int group = call.shape->heads / call.shape->kv_heads;
  const Bf16KvSpan& part = *call.part;
  const int64_t span_begin = call.span * kSpanEntries - part.first;
  Range needed{INT64_MAX, INT64_MIN};
  for (int i = 0; i < block.count; ++i) {
    const int64_t row = (call.begin + i) / group, head = (call.begin + i) % group;
    const float* q = call.q + row * call.q_stride + (call.kv_head * group + head) * kDim;
    for (int d = 0; d < kDim; d += kLanes) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(block.q[i] + d),
                         reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(Load(q + d))));
    }
    Begin(block.sums[i]);
    const int64_t* bounds = call.bounds + row * call.bounds_stride;
    Range& range = block.range[i];
    range = {Most(bounds[0], span_begin), Least(bounds[1], span_begin + kSpanEntries)};
    if (range.empty()) continue;
    needed = {Least(needed.begin, range.begin), Most(needed.end, range.end)};
  }
  if (needed.empty()) return;
  const int64_t stride = static_cast<int64_t>(call.shape->kv_heads) * kDim;
  const int64_t offset = static_cast<int64_t>(call.kv_head) * kDim;
  const auto* keys = reinterpret_cast<const uint16_t*>(part.keys) + offset;
  const auto* values = reinterpret_cast<const uint16_t*>(part.values) + offset;
  // Tiles are numbered from the span's beginning.
  for (int64_t entry = needed.begin - (needed.begin - span_begin) % kTile; entry < needed.end;
       entry += kTile) {
    Pack(block, keys, values, stride, entry, needed);
    MeetTile(block, entry);
  }
}

template <int kDim>
void Merge(const float* sums, int spans, int64_t stride, float* out) {
  Sums<kDim> all;
  Begin(all);
  for (int s = 0; s < spans; ++s) {
    const auto& span = *reinterpret_cast<const Sums<kDim>*>(sums + s * stride);
    if (span.highest == kNoScore) continue;
    const float highest = span.highest > all.highest ? span.highest : all.highest;
    const Vec before = Exp(Sub(Set(all.highest), Set(highest)));
    const Vec now = Exp(Sub(Set(span.highest), Set(highest)));
    const auto merge = [&](const float* from, float* to) {
      Store(to, Fma(Load(from), now, Mul(Load(to), before)));
    };
    merge(span.weights, all.weights);
    for (int d = 0; d < kDim; d += kLanes) merge(span.values + d, all.values + d);
    all.highest = highest;
  }
  const Vec by = Set(all.highest == kNoScore ? 0.0f : 1.0f / SumOf(Load(all.weights)));
  for (int d = 0; d < kDim; d += kLanes) {
    // A zero becomes +0, whatever was added to it for other queries' sake.
    Store(out + d, Add(Mul(Load(all.values + d), by), Zero()));
  }
}

}  // namespace

void AttendSpan(OpContext& ctx, const SpanCall& call, float* sums) {
  call.shape->head_dim == 64 ? Attend<64>(ctx, call, sums) : Attend<128>(ctx, call, sums);
}

void MergeSpans(int head_dim, const float* sums, int spans, int64_t stride, float* out) {
  head_dim == 64 ? Merge<64>(sums, spans, stride, out) : Merge<128>(sums, spans, stride, out);
}

}  // namespace recollect::kernels::avx512
