// The thread blocks of the device search over landmark keys. Two launches. In the first, a block
// takes one part of the candidates and kQueryTile queries: a key is read once for all of them, 8
// threads a key, and a score enters the query's list only when it beats the list's n-th. The n best
// of each part go to the workspace; no other score is written. In the second, one thread block for
// each query merges the parts' lists.
#pragma once

#include "kernels/block/thread_block.h"
#include "kernels/cuda/cuda_order.h"
#include "kernels/landmark_topk/landmark_topk_plan.h"

namespace recollect::kernels::cuda {

constexpr int kTopKThreads = 256;
constexpr int kQueryTile = 4;    // queries that share a key's read
constexpr int kKeysPerLane = 4;  // keys whose loads a thread has in flight
constexpr int kKeyGroups = kTopKThreads / kDotLanes;
constexpr int kTopKStep = kKeyGroups * kKeysPerLane;
constexpr int kListSlots = 2 * kTopKThreads;  // one exchange of the sort for each thread
constexpr int kPendingSlots = kListSlots - kMaxDeviceTopK;
static_assert(kTopKStep <= kPendingSlots, "what a step finds has to fit");

// The first kMaxDeviceTopK slots are the best so far, best first, then 0; the others hold numbers
// for the next sort, `pending` of them in use.
struct TopKList {
  uint64_t slots[kListSlots];
  int pending;
};

// Returns the place in the workspace for the n best of a part of the candidates.
RECOLLECT_HD uint64_t* PartialOf(const LandmarkTopKOp& op, int64_t query, int64_t part) {
  return static_cast<uint64_t*>(op.workspace) + (query * op.plan.parts + part) * op.plan.sizes.n;
}

struct LandmarkShared {
  alignas(16) float queries[kQueryTile][kMaxDeviceKeyWidth];
  TopKList lists[kQueryTile];
};

template <typename Block>
RECOLLECT_HD void ClearList(Block& block, TopKList& list) {
  block.Phase([&](int t) {
    list.slots[t] = 0;
    list.slots[kTopKThreads + t] = 0;
    if (t == 0) list.pending = 0;
  });
}

RECOLLECT_HD bool IsBetterThanLast(const TopKList& list, int n, uint64_t packed) {
  return packed > list.slots[n - 1];
}

template <typename Block>
RECOLLECT_HD void Offer(Block& block, TopKList& list, uint64_t packed) {
  list.slots[kMaxDeviceTopK + block.Increment(&list.pending)] = packed;
}

// Sorts the pending numbers into the list. Their order does not matter, since no two are equal.
template <typename Block>
RECOLLECT_HD void SortList(Block& block, TopKList& list) {
  block.Phase([&](int t) {
    if (t >= list.pending && t < kPendingSlots) list.slots[kMaxDeviceTopK + t] = 0;
  });
  for (int size = 2; size <= kListSlots; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      block.Phase([&](int t) { BitonicExchange(list.slots, t, size, stride); });
    }
  }
  block.Phase([&](int t) {
    if (t == 0) list.pending = 0;
  });
}

// Sorts when another `step` numbers might not fit.
template <typename Block>
RECOLLECT_HD void SortIfFull(Block& block, TopKList& list, int step) {
  const bool full = list.pending > kPendingSlots - step;
  block.Barrier();  // all have read `pending` before anyone adds to it
  if (full) SortList(block, list);
}

// Searches one part of the candidates for one tile of queries.
template <typename Block>
RECOLLECT_HD void LandmarkPart(Block& block, LandmarkShared& shared, const LandmarkTopKOp& op,
                               int64_t part, int64_t tile) {
  const LandmarkTopKPlan& plan = op.plan;
  const int width = plan.sizes.width, n = plan.sizes.n;
  const int64_t first_query = tile * kQueryTile;
  const int queries = static_cast<int>(plan.sizes.queries - first_query < kQueryTile
                                           ? plan.sizes.queries - first_query
                                           : kQueryTile);
  const int64_t begin = part * plan.part_keys;
  const int64_t end = begin + plan.part_keys < plan.sizes.candidates ? begin + plan.part_keys
                                                                     : plan.sizes.candidates;
  for (int q = 0; q < kQueryTile; ++q) ClearList(block, shared.lists[q]);
  block.Phase([&](int t) {
    for (int q = 0; q < kQueryTile; ++q) {
      for (int d = t; d < RoundUpToPiece(width); d += kTopKThreads) {
        shared.queries[q][d] =
            q < queries && d < width ? op.queries[(first_query + q) * width + d] : 0.0f;
      }
    }
  });

  typename Block::template PerThread<int64_t> segments(block);
  block.Run([&](int t) {
    int64_t segment = 0;
    while (op.segments[segment + 1].first <= begin) ++segment;
    segments[t] = segment;
  });
  typename Block::template PerThread<Floats<kKeysPerLane * kQueryTile>> dots(block);
  for (int64_t step = begin; step < end; step += kTopKStep) {
    block.Run([&](int t) {
      const int group = t / kDotLanes, lane = t % kDotLanes;
      const uint16_t* keys[kKeysPerLane];
      bool aligned[kKeysPerLane];
      int64_t& segment = segments[t];
      RECOLLECT_UNROLL
      for (int u = 0; u < kKeysPerLane; ++u) {
        // Past the end, the last candidate is scored again and not offered.
        int64_t candidate = step + u * kKeyGroups + group;
        if (candidate >= end) candidate = end - 1;
        while (op.segments[segment + 1].first <= candidate) ++segment;
        const SegmentStart& start = op.segments[segment];
        keys[u] = reinterpret_cast<const uint16_t*>(start.keys) + (candidate - start.first) * width;
        aligned[u] = IsAligned(keys[u]);
      }
      Floats<kKeysPerLane* kQueryTile> sums = {};
      for (int piece = lane; piece * kDotPiece < width; piece += kDotLanes) {
        float numbers[kKeysPerLane][kDotPiece];
        RECOLLECT_UNROLL
        for (int u = 0; u < kKeysPerLane; ++u) {
          LoadPiece(keys[u], piece, width, aligned[u], numbers[u]);
        }
        RECOLLECT_UNROLL
        for (int q = 0; q < kQueryTile; ++q) {
          RECOLLECT_UNROLL
          for (int i = 0; i < kDotPiece; ++i) {
            const float number = shared.queries[q][piece * kDotPiece + i];
            RECOLLECT_UNROLL
            for (int u = 0; u < kKeysPerLane; ++u) {
              float& sum = sums.v[u * kQueryTile + q];
              sum = Fma(number, numbers[u][i], sum);
            }
          }
        }
      }
      dots[t] = sums;
    });
    block.XorSum(dots, kDotLanes);
    block.Phase([&](int t) {
      const int group = t / kDotLanes, lane = t % kDotLanes;
      RECOLLECT_UNROLL
      for (int i = 0; i < kKeysPerLane * kQueryTile; ++i) {
        const int u = i / kQueryTile, q = i % kQueryTile;
        const int64_t candidate = step + u * kKeyGroups + group;
        if (i % kDotLanes != lane || q >= queries || candidate >= end) continue;
        const uint64_t packed = PackCandidate(Mul(dots[t].v[i], plan.scale), candidate);
        if (IsBetterThanLast(shared.lists[q], n, packed)) Offer(block, shared.lists[q], packed);
      }
    });
    for (int q = 0; q < queries; ++q) SortIfFull(block, shared.lists[q], kTopKStep);
  }
  for (int q = 0; q < queries; ++q) SortList(block, shared.lists[q]);
  block.Run([&](int t) {
    for (int q = 0; q < queries; ++q) {
      if (t < n) {
        PartialOf(op, first_query + q, part)[t] = shared.lists[q].slots[t];
      }
    }
  });
}

// Leaves the n best of `count` numbers in the list.
template <typename Block>
RECOLLECT_HD void MergeNumbers(Block& block, TopKList& list, const uint64_t* numbers, int64_t count,
                               int n) {
  ClearList(block, list);
  for (int64_t step = 0; step < count; step += kTopKStep) {
    block.Phase([&](int t) {
      if (t >= kTopKStep || step + t >= count) return;
      const uint64_t packed = numbers[step + t];
      if (IsBetterThanLast(list, n, packed)) Offer(block, list, packed);
    });
    SortIfFull(block, list, kTopKStep);
  }
  SortList(block, list);
}

// Writes a query's result at place `place`; 0: there is no candidate for it.
RECOLLECT_HD void WriteBest(int64_t* candidates, float* scores, int place, uint64_t packed) {
  candidates[place] = packed == 0 ? -1 : CandidateOf(packed);
  scores[place] = packed == 0 ? -Infinity() : ScoreOf(packed);
}

// Writes the n best of `count` numbers in global memory, 0 among them standing for none. Places
// without a candidate get -1 and -infinity.
template <typename Block>
RECOLLECT_HD void MergeBest(Block& block, TopKList& list, const uint64_t* numbers, int64_t count,
                            int n, int64_t* candidates, float* scores) {
  MergeNumbers(block, list, numbers, count, n);
  block.Run([&](int t) {
    if (t < n) WriteBest(candidates, scores, t, list.slots[t]);
  });
}

// Merges the parts' lists of one query.
template <typename Block>
RECOLLECT_HD void LandmarkMerge(Block& block, TopKList& list, const LandmarkTopKOp& op,
                                int64_t query) {
  const int n = op.plan.sizes.n;
  MergeBest(block, list, PartialOf(op, query, 0), op.plan.parts * n, n, op.candidates + query * n,
            op.scores + query * n);
}

}  // namespace recollect::kernels::cuda
