#include "kernels/cpu/simd.h"
#include "kernels/landmark_topk/landmark_sketch.h"

namespace recollect::kernels::RECOLLECT_SIMD_NS {
namespace {

// As far ahead of use as keys are fetched (landmark_topk_simd.cc).
constexpr int64_t kAheadBytes = 4096;
// Rows summed in 16 bits: 4 · 2 · 2 · 15 · 127 is less than 2^15.
constexpr int64_t kRowsAtOnce = 4;

RECOLLECT_INLINE Ints ShiftDown16(Ints a, int n) { return RECOLLECT_MM(srli_epi16)(a, n); }
RECOLLECT_INLINE Ints ShiftUp32(Ints a, int n) { return RECOLLECT_MM(slli_epi32)(a, n); }
RECOLLECT_INLINE Ints Add16(Ints a, Ints b) { return RECOLLECT_MM(add_epi16)(a, b); }
RECOLLECT_INLINE Ints Add32(Ints a, Ints b) { return RECOLLECT_MM(add_epi32)(a, b); }
// Sums of two neighbours: unsigned bytes times signed ones, and 16-bit integers.
RECOLLECT_INLINE Ints Pairs8(Ints a, Ints b) { return RECOLLECT_MM(maddubs_epi16)(a, b); }
RECOLLECT_INLINE Ints Pairs16(Ints a, Ints b) { return RECOLLECT_MM(madd_epi16)(a, b); }

#if defined(__AVX512F__)
// A byte in each lane.
RECOLLECT_INLINE Ints ReadBytes(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
// A bit for each lane.
RECOLLECT_INLINE uint32_t NotLess(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
#else
RECOLLECT_INLINE Ints ReadBytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
RECOLLECT_INLINE uint32_t NotLess(Vec a, Vec b) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ)));
}
#endif

RECOLLECT_INLINE Ints SetFours(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return SetInts(four);
}

// sums[q] lane i: Σ weight of query q · code of key i over `count` rows.
template <int kQueries>
RECOLLECT_INLINE void RowSums(const uint8_t* rows, const int8_t* const (&weights)[kQueries],
                              int64_t count, Ints (&sums)[kQueries]) {
  const Ints lower = SetInts(0x0f0f0f0f), ones = SetInts(0x00010001);
  for (int q = 0; q < kQueries; ++q) sums[q] = ZeroInts();
  for (int64_t row = 0; row < count;) {
    const int64_t end = row + kRowsAtOnce < count ? row + kRowsAtOnce : count;
    Ints pairs[kQueries];
    for (int q = 0; q < kQueries; ++q) pairs[q] = ZeroInts();
    for (; row < end; ++row) {
      const uint8_t* at = rows + row * kSketchRowBytes;
      _mm_prefetch(reinterpret_cast<const char*>(at) + kAheadBytes, _MM_HINT_T0);
      const Ints codes = LoadInts(at);
      const Ints low = AndInts(codes, lower), high = AndInts(ShiftDown16(codes, 4), lower);
#pragma GCC unroll 4
      for (int q = 0; q < kQueries; ++q) {
        const int8_t* weight = weights[q] + row * kSketchRowCoordinates;
        pairs[q] = Add16(pairs[q], Pairs8(low, SetFours(weight)));
        pairs[q] = Add16(pairs[q], Pairs8(high, SetFours(weight + 4)));
      }
    }
    for (int q = 0; q < kQueries; ++q) sums[q] = Add32(sums[q], Pairs16(pairs[q], ones));
  }
}

// Lane i of key `key` of a block and those that follow.
template <int kQueries>
RECOLLECT_INLINE void SumBlock(const SketchSums* queries, int64_t rows, const uint8_t* codes,
                               int64_t first) {
  const int8_t* weights[kQueries];
  for (int q = 0; q < kQueries; ++q) weights[q] = queries[q].weights;
  for (int64_t key = 0; key < kSketchBlock; key += kLanes) {
    Ints sums[kQueries];
    RowSums<kQueries>(codes + 4 * key, weights, rows, sums);
    for (int q = 0; q < kQueries; ++q) StoreInts(queries[q].sums + first + key, sums[q]);
  }
}

constexpr int kVecs = kSketchColumns / kLanes;

template <int kRows>
RECOLLECT_INLINE void Coordinates(const float* x, int64_t stride, int64_t dense,
                                  const float* directions, float* coordinates) {
  Vec sum[kRows][kVecs];
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 6
    for (int u = 0; u < kVecs; ++u) sum[row][u] = Zero();
  }
  for (int64_t d = 0; d < dense; ++d) {
#pragma GCC unroll 6
    for (int u = 0; u < kVecs; ++u) {
      const Vec along = Load(directions + d * kSketchColumns + u * kLanes);
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) {
        sum[row][u] = Fma(Set(x[row * stride + d]), along, sum[row][u]);
      }
    }
  }
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 6
    for (int u = 0; u < kVecs; ++u) {
      Store(coordinates + row * kSketchColumns + u * kLanes, sum[row][u]);
    }
  }
}

}  // namespace

void SketchCoordinates(OpContext&, const float* x, int64_t stride, int64_t rows, int64_t dense,
                       const float* directions, float* coordinates) {
  constexpr int kRows = 12 / kVecs;  // of sums, with room for operands among AVX2's 16 registers
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    Coordinates<kRows>(x + row * stride, stride, dense, directions,
                       coordinates + row * kSketchColumns);
  }
  for (; row < rows; ++row) {
    Coordinates<1>(x + row * stride, stride, dense, directions, coordinates + row * kSketchColumns);
  }
}

// Block by block: the first queries read a block from memory, the others from the cache.
void SumSketch(OpContext&, std::span<const SketchSums> queries, int64_t coarse_rows,
               const uint8_t* codes, int64_t blocks) {
  const auto count = static_cast<int64_t>(queries.size());
  for (int64_t block = 0; block < blocks; ++block) {
    const uint8_t* at = codes + block * coarse_rows * kSketchRowBytes;
    int64_t q = 0;
    for (; q + 2 <= count; q += 2) {
      SumBlock<2>(queries.data() + q, coarse_rows, at, block * kSketchBlock);
    }
    if (q < count) SumBlock<1>(queries.data() + q, coarse_rows, at, block * kSketchBlock);
  }
}

void SketchBounds(OpContext&, const int8_t* fine_weights, const SketchFactors& factors,
                  int64_t fine_rows, const uint8_t* codes, const int32_t* coarse_sums,
                  const SketchErrors* errors, int64_t blocks, float* bounds) {
  const int8_t* const weights[1] = {fine_weights};
  for (int64_t block = 0; block < blocks; ++block) {
    const SketchErrors& error = errors[block];
    const Vec slack = Set(factors.base + factors.Slack(error));
    const Vec coarse_slack = Set(factors.CoarseSlack(error));
    for (int64_t key = 0; key < kSketchBlock; key += kLanes) {
      const uint8_t* at = codes + 2 * block * fine_rows * kSketchRowBytes + 4 * key;
      Ints upper[1], lower[1];
      RowSums<1>(at, weights, fine_rows, upper);
      RowSums<1>(at + fine_rows * kSketchRowBytes, weights, fine_rows, lower);
      const Vec fine = ToFloats(Add32(ShiftUp32(upper[0], 4), lower[0]));
      const Vec coarse = ToFloats(LoadInts(coarse_sums + block * kSketchBlock + key));
      const Vec least = Fma(coarse_slack, ToFloats(ReadBytes(error.coarse_part + key)), slack);
      Store(bounds + block * kSketchBlock + key,
            Fma(Set(factors.coarse), coarse, Fma(Set(factors.fine), fine, least)));
    }
  }
}

int64_t BoundsNotBelow(OpContext&, const float* bounds, int64_t count, float least,
                       int64_t* places) {
  int64_t found = 0;
  for (int64_t i = 0; i < count; i += kLanes) {
    const int left = static_cast<int>(count - i < kLanes ? count - i : kLanes);
    const Vec some = left == kLanes ? Load(bounds + i) : LoadFirst(bounds + i, left);
    uint32_t lanes = NotLess(some, Set(least)) & ((1u << left) - 1);
    for (; lanes != 0; lanes &= lanes - 1) places[found++] = i + __builtin_ctz(lanes);
  }
  return found;
}

}  // namespace recollect::kernels::RECOLLECT_SIMD_NS
