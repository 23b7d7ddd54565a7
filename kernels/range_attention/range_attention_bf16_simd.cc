// One span of attention over a cache in bf16, by products of pairs (AVX512-BF16).
#include "kernels/range_attention/range_attention_bf16_simd.h"

namespace recollect::kernels::avx512 {
namespace {

constexpr int kQueries = kVectorQueries;
constexpr int kTogether = kVectorQueryStep;

RECOLLECT_INLINE Vec AddProducts(Vec sum, Bits a, Bits b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
RECOLLECT_INLINE Bits PairEverywhere(const uint16_t* pair) {
  int32_t bits;
  __builtin_memcpy(&bits, pair, sizeof(bits));
  return _mm512_set1_epi32(bits);
}

// Queries of one key-value head at one tile.
template <int kDim>
struct Block {
  int count;
  Sums<kDim>* sums;       // [count, rounded up to kTogether]
  Range range[kQueries];  // entries of the part
  alignas(64) uint16_t q[kQueries][kDim];
  PackedTile<kDim> tile;
  alignas(64) float scores[kTogether][kTile];
  alignas(64) uint16_t weights[kTogether][kTile];
};

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
    for (int u = 0; u < kVecs; ++u) keys[u] = _mm512_load_si512(block.tile.keys[v + u][pair]);
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
        values[u] = _mm512_load_si512(block.tile.values[pair][d + u * kLanes]);
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
    const Range here = InTile(block.range[first + r], entry);
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
void Attend(OpContext& ctx, const SpanCall& call, float* sums) {
  auto& block = BlockOf<Block<kDim>>(ctx);
  const Range needed = BeginBlock<kDim>(call, sums, block);
  if (needed.empty()) return;
  const CacheRows cache = RowsOf(call);
  for (int64_t entry = FirstTile(call, needed); entry < needed.end; entry += kTile) {
    Pack<kDim, kLanes, true>(block.tile, cache, entry, needed);
    MeetTile(block, entry);
  }
}

}  // namespace

void AttendSpan(OpContext& ctx, const SpanCall& call, float* sums) {
  call.shape->head_dim == 64 ? Attend<64>(ctx, call, sums) : Attend<128>(ctx, call, sums);
}

}  // namespace recollect::kernels::avx512
