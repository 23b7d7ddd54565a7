// One span of attention over a cache in bf16, by products of pairs (AVX512-BF16).
#include "kernels/range_attention/range_attention_bf16_simd.h"

namespace recollect::kernels::avx512 {
namespace {

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
  Sums<kDim>* sums;          // [count, rounded up to kTogether]
  Range range[kMaxQueries];  // entries of the part
  alignas(64) float highest[kMaxQueries + kLanes];
  alignas(64) uint16_t q[kMaxQueries][kDim];
  PackedTile<kDim> tile;
  alignas(64) float products[kTogether][kTile];
  alignas(64) uint16_t weights[kTogether][kTile];
};

// products[r][16 v ..] of kRows queries from `first` on, for kVecs key vectors from v on.
template <int kDim, int kRows, int kVecs>
void MultiplyKeys(Block<kDim>& block, int first, int v) {
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
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int u = 0; u < kVecs; ++u) Store(block.products[r] + (v + u) * kLanes, sums[r][u]);
  }
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
  const Ranges ranges =
      RangesIn(block, first, static_cast<int>(Least(block.count - first, kRows)), entry);
  const Range together = ranges.together;
  if (together.empty()) return;
  if (NeedsHalf(together, 0) && NeedsHalf(together, 1)) {
    MultiplyKeys<kDim, kRows, kKeyVecs>(block, first, 0);
  } else {
    constexpr int kVecs = kKeyVecs / 2;
    MultiplyKeys<kDim, kRows, kVecs>(block, first, NeedsHalf(together, 0) ? 0 : kVecs);
  }
  alignas(64) float factors[kLanes];
  Weigh<kDim, kRows>(block, first, ranges, factors);
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
  for (float& highest : block.highest) highest = kNoScore;
  const CacheRows cache = RowsOf(call);
  for (int64_t entry = FirstTile(call, needed); entry < needed.end; entry += kTile) {
    Pack<kDim, true>(block.tile, cache, entry, needed);
    MeetTile(block, entry);
  }
  for (int i = 0; i < block.count; ++i) block.sums[i].highest = block.highest[i];
}

}  // namespace

void AttendSpan(OpContext& ctx, const SpanCall& call, float* sums) {
  call.shape->head_dim == 64 ? Attend<64>(ctx, call, sums) : Attend<128>(ctx, call, sums);
}

}  // namespace recollect::kernels::avx512
