// The thread blocks of the search for many queries that follow its filter
// (landmark_filter_kernel.h). A block for each query merges the parts' lists, scores the 16 best
// again in the order of LandmarkPart (landmark_topk_kernel.h), and answers with the best of them.
//
// The answer is the exact one where the n-th of these scores is above every score that a candidate
// outside of the 16 can have. With û the rounded query, a the filter's score, |κ| at most K:
//   |a - <u, κ>| <= (|u - û| + γ |u|) K,  γ = 2^-13 for the roundings of both sums,
// and nobody outside has a larger a than the 16th. Other queries are in doubt: two more launches
// search for them, and only for them, by tiles of exact scores. So bits are always those of tiles.
#pragma once

#include "kernels/block/launch.h"
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

// Answers query x from the filter's lists, and says whether the answer is in doubt.
struct LandmarkDecideBlocks : Blocks<kTopKThreads, DecideShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const LandmarkTopKOp& op,
                               BlockIndex at) {
    const int64_t query = at.x;
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
      const bool proven =
          last == 0 ? error < Infinity() : shared.sums[t] > Add(ScoreOf(last), error);
      DoubtsOf(op)[query] = proven ? 0 : 1;
    });
  }
};

// ---- Launches ----------------------------------------------------------------------------------

// x the tile of queries, so that blocks that read the same keys run together; y the part. With
// kDoubts for queries in doubt alone: mostly there is none.
template <bool kDoubts>
struct LandmarkPartBlocks : Blocks<kTopKThreads, LandmarkShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, LandmarkShared& shared, const LandmarkTopKOp& op,
                               BlockIndex at) {
    if (kDoubts && !TileInDoubt(op, at.x)) return;
    LandmarkPart(block, shared, op, at.y, at.x);
  }
};
// x the query.
template <bool kDoubts>
struct LandmarkMergeBlocks : Blocks<kTopKThreads, TopKList> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, TopKList& list, const LandmarkTopKOp& op,
                               BlockIndex at) {
    if (kDoubts && DoubtsOf(op)[at.x] == 0) return;
    LandmarkMerge(block, list, op, at.x);
  }
};
// x the query, y the part. Registers for two blocks hold what is on its way.
template <int kPieces>
struct LandmarkAheadBlocks : Blocks<kTopKThreads, AheadShared<kPieces>, 2> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, AheadShared<kPieces>& shared, const LandmarkTopKOp& op,
                               BlockIndex at) {
    LandmarkPartAhead(block, shared, op, at.y, at.x);
  }
};
// x the tile of 64 queries, y the part.
template <int kSteps>
struct LandmarkFilterBlocks : Blocks<kTopKThreads, FilterShared<kSteps>, 1> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, FilterShared<kSteps>& shared, const LandmarkTopKOp& op,
                               BlockIndex at) {
    LandmarkFilter(block, shared, op, at.y, at.x);
  }
};
template <bool kDoubts, typename Launcher, typename Parts>
absl::Status LaunchParts(const Launcher& launch, Parts blocks, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  RETURN_IF_ERROR(launch(blocks, "landmark top-k, parts", {plan.query_tiles, plan.parts}, op));
  return launch(LandmarkMergeBlocks<kDoubts>{}, "landmark top-k, merge", {.x = plan.sizes.queries},
                op);
}

template <int kSteps, typename Launcher>
absl::Status LaunchFilter(const Launcher& launch, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  ASSIGN_OR_RETURN(const bool fits, launch.Fits(LandmarkFilterBlocks<kSteps>{}, op));
  if (!fits) return LaunchParts<false>(launch, LandmarkPartBlocks<false>{}, op);
  RETURN_IF_ERROR(launch(LandmarkFilterBlocks<kSteps>{}, "landmark top-k, filter",
                         {plan.filter_tiles, plan.filter_parts}, op));
  RETURN_IF_ERROR(
      launch(LandmarkDecideBlocks{}, "landmark top-k, decision", {.x = plan.sizes.queries}, op));
  return LaunchParts<true>(launch, LandmarkPartBlocks<true>{}, op);
}

// Whether all keys begin where the plan's sizes say that they do.
inline absl::Status CheckAligned(const LandmarkTopKOp& op) {
  const SegmentStart* segment = op.segments;
  for (; op.plan.sizes.aligned && segment->first < op.plan.sizes.candidates; ++segment) {
    if (IsAligned(segment->keys)) continue;
    return absl::InvalidArgumentError("top-k of keys that are not aligned, planned as aligned");
  }
  return absl::OkStatus();
}

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const LandmarkTopKOp& op) {
  using enum LandmarkTopKPlan::Strategy;
  const LandmarkTopKSizes& sizes = op.plan.sizes;
  if (sizes.queries == 0 || sizes.n == 0) return absl::OkStatus();
  RETURN_IF_ERROR(launch.CheckArrays([&] { return CheckAligned(op); }));
  const bool ahead = op.plan.strategy == kAhead;
  if (op.plan.strategy == kTiles)
    return LaunchParts<false>(launch, LandmarkPartBlocks<false>{}, op);
  if (sizes.width == 64) {
    return ahead ? LaunchParts<false>(launch, LandmarkAheadBlocks<1>{}, op)
                 : LaunchFilter<4>(launch, op);
  }
  if (sizes.width == 128) {
    return ahead ? LaunchParts<false>(launch, LandmarkAheadBlocks<2>{}, op)
                 : LaunchFilter<8>(launch, op);
  }
  return ahead ? LaunchParts<false>(launch, LandmarkAheadBlocks<4>{}, op)
               : LaunchFilter<16>(launch, op);
}

}  // namespace recollect::kernels::cuda
