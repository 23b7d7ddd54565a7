// Merges what queries have summed in spans of attention over bf16: 16 queries at a time, one in
// each lane, so that they share exponentials and sums over lanes.
#include "kernels/range_attention/range_attention_bf16_simd.h"

namespace recollect::kernels::avx512 {
namespace {

static_assert(kMergedQueries == kLanes);

// By lane, of one span. Lanes without a query repeat the last one.
struct Summed {
  Vec highest, weight;
};

template <int kDim>
RECOLLECT_INLINE const Sums<kDim>* SpanOf(const SummedSpans& sums, int span) {
  return reinterpret_cast<const Sums<kDim>*>(sums.sums + span * sums.stride);
}

template <int kDim>
RECOLLECT_INLINE Vec HighestIn(const SummedSpans& sums, int span) {
  const Sums<kDim>* queries = SpanOf<kDim>(sums, span);
  alignas(64) float highest[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    highest[i] = queries[i < sums.queries ? i : sums.queries - 1].highest;
  }
  return Load(highest);
}

template <int kDim>
RECOLLECT_INLINE Vec WeightsIn(const SummedSpans& sums, int span) {
  const Sums<kDim>* queries = SpanOf<kDim>(sums, span);
  Vec weights[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    weights[i] = Load(queries[i < sums.queries ? i : sums.queries - 1].weights);
  }
  return SumsOf(weights);
}

// out[i] = `before`[i] + factors[i] * values of query i in a span, where `before` is out or, with
// kFirst, +0: so a zero is +0, whatever is added to it for other queries' sake.
template <int kDim, bool kFirst>
RECOLLECT_INLINE void AddValues(const SummedSpans& sums, int span, Vec factors, float* const* out) {
  const Sums<kDim>* queries = SpanOf<kDim>(sums, span);
  alignas(64) float factor[kLanes];
  Store(factor, factors);
  for (int i = 0; i < sums.queries; ++i) {
    const Vec by = Set(factor[i]);
#pragma GCC unroll 8
    for (int d = 0; d < kDim; d += kLanes) {
      const Vec before = kFirst ? Zero() : Load(out[i] + d);
      Store(out[i] + d, Fma(Load(queries[i].values + d), by, before));
    }
  }
}

template <int kDim>
void SetZero(const SummedSpans& sums, float* const* out) {
  for (int i = 0; i < sums.queries; ++i) {
    for (int d = 0; d < kDim; d += kLanes) Store(out[i] + d, Zero());
  }
}

template <int kDim>
void Merge(const SummedSpans& sums, float* const* out) {
  if (sums.spans == 0) return SetZero<kDim>(sums, out);
  Vec highest = Set(kNoScore);
  for (int s = 0; s < sums.spans; ++s) highest = Max(highest, HighestIn<kDim>(sums, s));
  Vec total = Zero();
  for (int s = 0; s < sums.spans; ++s) {
    const Vec factor = Exp(Sub(HighestIn<kDim>(sums, s), highest));
    total = Fma(WeightsIn<kDim>(sums, s), factor, total);
  }
  // Of a query without entries all sums are 0.
  const __mmask16 some = _mm512_cmp_ps_mask(highest, Set(kNoScore), _CMP_GT_OQ);
  const Vec by = _mm512_maskz_div_ps(some, Set(1.0f), total);
  for (int s = 0; s < sums.spans; ++s) {
    const Vec factor = Mul(Exp(Sub(HighestIn<kDim>(sums, s), highest)), by);
    s == 0 ? AddValues<kDim, true>(sums, s, factor, out)
           : AddValues<kDim, false>(sums, s, factor, out);
  }
}

template <int kDim>
void Add(const SummedSpans& sums, bool off_by_one, float weight, float* const* out) {
  const Vec least = Set(off_by_one ? 0.0f : kNoScore);
  const Vec highest = HighestIn<kDim>(sums, 0), shift = Max(highest, least);
  const Vec factor = Exp(Sub(highest, shift));
  const Vec total = Fma(WeightsIn<kDim>(sums, 0), factor, Exp(Sub(least, shift)));
  AddValues<kDim, false>(sums, 0, Div(Mul(Set(weight), factor), total), out);
}

}  // namespace

void MergeSpans(const SummedSpans& sums, float* const* out) {
  sums.head_dim == 64 ? Merge<64>(sums, out) : Merge<128>(sums, out);
}

void AddSpan(const SummedSpans& sums, bool off_by_one, float weight, float* const* out) {
  sums.head_dim == 64 ? Add<64>(sums, off_by_one, weight, out)
                      : Add<128>(sums, off_by_one, weight, out);
}

}  // namespace recollect::kernels::avx512
