// The thread blocks of the search for many queries that follow its filter
// (landmark_filter_kernel.h). A block for each query merges the parts' lists, scores the 16 best
// again in the order of LandmarkPart (landmark_topk_kernel.h), and answers with the best of them.
//
// The answer is the exact one where the n-th of these scores is above every score that a candidate
// outside of the 16 can have. With û the rounded query, a the filter's score, |κ| at most K:
//   |a - <u, κ>| <= (|u - û| + γ |u|) K,  γ = 2^-13 for the roundings of both sums,
// and nobody outside has a larger a than the 16th. Other queries are in doubt: two more launches
// search for them, and only for them, by tiles of exact scores. So bits are always those of tiles.
#ifndef RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_DECIDE_KERNEL_H_
#define RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_DECIDE_KERNEL_H_

#include "kernels/landmark_topk/landmark_filter_kernel.h"

namespace recollect::kernels::cuda {

struct DecideShared {
  alignas(16) float query[kMaxDeviceKeyWidth];
  TopKList list;
  float squares[kFilterWarps], rounded[kFilterWarps], sizes[kFilterWarps];
  uint64_t exact[kFilterKept];
  float sums[kFilterKept];  // of products, before they are scaled
};

// Returns a bound of what a filter's score and an exact sum of the same key differ by; infinite
// where there is none.
template <typename Block>
RECOLLECT_HD float FilterError(Block& block, DecideShared& shared, const LandmarkTopKOp& op,
                               int64_t query) {
  const int width = op.plan.sizes.width;
  typename Block::template PerThread<Floats<2>> squares(block);
  typename Block::template PerThread<Floats<1>> size(block);
  block.Run([&](int t) {
    squares[t] = {};
    size[t] = {};
    for (int d = t; d < width; d += kTopKThreads) {
      const float number = op.queries[query * width + d];
      const float lost = Add(number, -FromBf16(ToBf16(number)));
      shared.query[d] = number;
      squares[t].v[0] = Fma(number, number, squares[t].v[0]);
      squares[t].v[1] = Fma(lost, lost, squares[t].v[1]);
    }
    for (int64_t part = t; part < op.plan.filter_parts; part += kTopKThreads) {
      size[t].v[0] = Max(size[t].v[0], FilterSizesOf(op)[part]);
    }
  });
  block.XorSum(squares, kMatrixWarp);
  block.XorMax(size, kMatrixWarp);
  block.Phase([&](int t) {
    if (t % kMatrixWarp != 0) return;
    shared.squares[t / kMatrixWarp] = squares[t].v[0];
    shared.rounded[t / kMatrixWarp] = squares[t].v[1];
    shared.sizes[t / kMatrixWarp] = size[t].v[0];
  });
  float of_query = 0, of_rounding = 0, of_keys = 0;
  for (int warp = 0; warp < kFilterWarps; ++warp) {
    of_query = Add(of_query, shared.squares[warp]);
    of_rounding = Add(of_rounding, shared.rounded[warp]);
    of_keys = Max(of_keys, shared.sizes[warp]);
  }
  // Squares below the smallest numbers are lost in these sums; with 1 % and these
  // constants they are covered.
  const float keys = Add(Mul(1.01f, Sqrt(of_keys)), 1e-16f);
  const float all = Mul(Add(Mul(1.01f, Sqrt(of_query)), 1e-16f), keys);
  const float lost = Mul(Add(Mul(1.01f, Sqrt(of_rounding)), 1e-17f), keys);
  const float error = Add(lost, Mul(0x1p-13f, all));
  return all < 1e37f ? Add(error, 1e-30f) : Infinity();
}

// Scores the candidates of the list again: eight threads a key, as in LandmarkPart.
template <typename Block>
RECOLLECT_HD void ScoreAgain(Block& block, DecideShared& shared, const LandmarkTopKOp& op) {
  typename Block::template PerThread<Floats<1>> sums(block);
  block.Run([&](int t) {
    const int i = t / kDotLanes;
    sums[t] = {};
    if (i >= kFilterKept || shared.list.slots[i] == 0) return;
    KeyCursor cursor;
    cursor.Begin(op.segments);
    const int width = op.plan.sizes.width;
    const auto candidate = static_cast<int>(CandidateOf(shared.list.slots[i]));
    sums[t].v[0] = DotLane(shared.query, cursor.Find(op.segments, candidate, width), width,
                           t % kDotLanes, true, 0.0f);
  });
  block.XorSum(sums, kDotLanes);
  block.Phase([&](int t) {
    const int i = t / kDotLanes;
    if (i >= kFilterKept || t % kDotLanes != 0) return;
    const uint64_t filtered = shared.list.slots[i];
    shared.sums[i] = sums[t].v[0];
    shared.exact[i] =
        filtered == 0 ? 0 : PackCandidate(Mul(sums[t].v[0], op.plan.scale), CandidateOf(filtered));
  });
}

// Answers one query from the filter's lists, and says whether the answer is in doubt.
template <typename Block>
RECOLLECT_HD void LandmarkDecide(Block& block, DecideShared& shared, const LandmarkTopKOp& op,
                                 int64_t query) {
  const int n = op.plan.sizes.n;
  MergeNumbers(block, shared.list, FilterListOf(op, query, 0), op.plan.filter_parts * kFilterKept,
               kFilterKept);
  const float error = FilterError(block, shared, op, query);
  ScoreAgain(block, shared, op);
  block.Run([&](int t) {
    if (t >= kFilterKept) return;
    const uint64_t packed = shared.exact[t], last = shared.list.slots[kFilterKept - 1];
    int rank = RankOf(shared.exact, kFilterKept, packed);
    for (int i = 0; packed == 0 && i < t; ++i) rank += shared.exact[i] == 0 ? 1 : 0;
    if (rank < n) WriteBest(op.candidates + query * n, op.scores + query * n, rank, packed);
    if (rank != n - 1) return;
    // Without a 16th nobody was left out, unless by a score that is no number.
    const bool proven = last == 0 ? error < Infinity() : shared.sums[t] > Add(ScoreOf(last), error);
    DoubtsOf(op)[query] = proven ? 0 : 1;
  });
}

}  // namespace recollect::kernels::cuda

#endif  // RECOLLECT_KERNELS_LANDMARK_TOPK_LANDMARK_DECIDE_KERNEL_H_
