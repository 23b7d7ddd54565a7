// Outputs of one row on AVX-512, in the order in which AMX adds (kernels/gemm/gemm_row.h).
#include "kernels/cpu/simd.h"
#include "kernels/gemm/row_outputs.h"

namespace recollect::kernels::avx512 {
namespace {

// Denormal numbers are 0 in operands and results; nothing is trapped.
constexpr unsigned kFlushDenormals = 0x9fc0;

// The prefetch distance, as of quantised weights (quant_rows_simd.h).
constexpr int64_t kAheadBytes = 4096;

struct Pair {
  Vec even, odd;
};

// Two numbers in each lane.
RECOLLECT_INLINE Pair Widen(Ints pairs) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)),
          _mm512_castsi512_ps(AndInts(pairs, SetInts(static_cast<int>(0xffff0000u))))};
}

// 16 kVecs outputs. Not to be inlined: the compiler might move sums out of where denormal numbers
// are 0.
template <int kVecs>
__attribute__((noinline)) void MultiplyOutputs(const RowOutputs& some, float* y) {
  const uint16_t* line = some.weights;
  Vec total[kVecs];
  for (Vec& vec : total) vec = Zero();
  for (int64_t i = 0; i < some.k; i += kAmxDepth) {
    Pair sum[kVecs];
    for (Pair& pair : sum) pair = {Zero(), Zero()};
#pragma GCC unroll 16
    for (int64_t at = i; at < i + kAmxDepth; at += 2, line += 2 * kAmxPanel) {
      int pair;
      __builtin_memcpy(&pair, some.x + at, sizeof(pair));
      const Pair x = Widen(SetInts(pair));
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) {
        const uint16_t* weights = line + v * 2 * kLanes;
        _mm_prefetch(reinterpret_cast<const char*>(weights) + kAheadBytes, _MM_HINT_T0);
        const Pair w = Widen(LoadInts(weights));
        sum[v] = {Fma(x.even, w.even, sum[v].even), Fma(x.odd, w.odd, sum[v].odd)};
      }
    }
    for (int v = 0; v < kVecs; ++v) total[v] = Add(total[v], Add(sum[v].even, sum[v].odd));
  }
  for (int v = 0; v < kVecs; ++v) Store(y + v * kLanes, total[v]);
}

}  // namespace

void MultiplyRow(const RowOutputs& some, float* y) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kFlushDenormals);
  some.outputs == kAmxPanel ? MultiplyOutputs<4>(some, y) : MultiplyOutputs<2>(some, y);
  _mm_setcsr(before);
}

}  // namespace recollect::kernels::avx512
