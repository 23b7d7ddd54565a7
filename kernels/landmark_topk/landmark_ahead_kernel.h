// The thread blocks of the search for one query over keys that all begin at multiples of 16 bytes
// and have a width of 64, 128 or 256. They give the bits of LandmarkPart (landmark_topk_kernel.h):
// the same products in the same order. While a thread adds up its four keys of one step, those of
// the next step are on their way to its registers: without this the device mostly waits.
#pragma once

#include "kernels/landmark_topk/landmark_topk_kernel.h"

namespace recollect::kernels::cuda {

// Numbers of a key that its lanes read at once.
constexpr int kLanesRead = kDotLanes * kDotPiece;
constexpr int kPieceWords = kDotPiece / 2;

// kPieces * kLanesRead is the width of keys.
template <int kPieces>
struct AheadShared {
  // [half of a piece, piece]: what eight lanes read together lies side by side.
  alignas(16) float query[2][kPieces * kDotLanes][kDotPiece / 2];
  TopKList list;
};

// Finds the keys of candidates that never fall. Candidates are below kMaxCandidates, so 32 bits
// hold them, and registers are short here.
struct KeyCursor {
  int segment;
  int first;  // candidate of this segment
  int next;   // candidate, of the next segment
  const uint16_t* keys;

  RECOLLECT_HD void Begin(const SegmentStart* segments) {
    segment = -1;
    Advance(segments);
  }
  RECOLLECT_HD void Advance(const SegmentStart* segments) {
    ++segment;
    first = static_cast<int>(segments[segment].first);
    next = static_cast<int>(segments[segment + 1].first);
    keys = reinterpret_cast<const uint16_t*>(segments[segment].keys);
  }
  RECOLLECT_HD const uint16_t* Find(const SegmentStart* segments, int candidate, int width) {
    while (candidate >= next) Advance(segments);
    return keys + static_cast<int64_t>(candidate - first) * width;
  }
};

// The four keys of a thread in one step.
struct StepKeys {
  const uint16_t* of[kKeysPerLane];
};

// Finds the keys of the step at `step`; past the end it is the last key again.
RECOLLECT_HD StepKeys FindStepKeys(const LandmarkTopKOp& op, KeyCursor& cursor, int step, int end,
                                   int group) {
  StepKeys keys;
  RECOLLECT_UNROLL
  for (int u = 0; u < kKeysPerLane; ++u) {
    const int candidate = step + u * kKeyGroups + group;
    keys.of[u] =
        cursor.Find(op.segments, candidate < end ? candidate : end - 1, op.plan.sizes.width);
  }
  return keys;
}

// Loads eight Bf16 at a multiple of 16 bytes.
RECOLLECT_HD void LoadEight(const uint16_t* from, uint32_t* to) {
#if defined(__CUDA_ARCH__)
  const uint4 four = __ldg(reinterpret_cast<const uint4*>(from));
  to[0] = four.x;
  to[1] = four.y;
  to[2] = four.z;
  to[3] = four.w;
#else
  std::memcpy(to, from, kPieceWords * sizeof(uint32_t));
#endif
}

// A thread's numbers of its four keys: of piece p and key u from word (p * 4 + u) * 4 on.
template <int kPieces>
using AheadWords = Words<kPieces * kKeysPerLane * kPieceWords>;

template <int kPieces>
RECOLLECT_HD void LoadAhead(const StepKeys& keys, int piece, int lane, AheadWords<kPieces>& words) {
  RECOLLECT_UNROLL
  for (int u = 0; u < kKeysPerLane; ++u) {
    LoadEight(keys.of[u] + (piece * kDotLanes + lane) * kDotPiece,
              words.v + (piece * kKeysPerLane + u) * kPieceWords);
  }
}

// Adds the products of one piece of each key to its sum.
template <int kPieces>
RECOLLECT_HD void AddPiece(const AheadShared<kPieces>& shared, const AheadWords<kPieces>& words,
                           int piece, int lane, Floats<kKeysPerLane>& sums) {
  RECOLLECT_UNROLL
  for (int half = 0; half < 2; ++half) {
    RECOLLECT_UNROLL
    for (int i = 0; i < kDotPiece / 2; ++i) {
      const float number = shared.query[half][piece * kDotLanes + lane][i];
      RECOLLECT_UNROLL
      for (int u = 0; u < kKeysPerLane; ++u) {
        const uint32_t pair =
            words.v[(piece * kKeysPerLane + u) * kPieceWords + half * kPieceWords / 2 + i / 2];
        sums.v[u] = Fma(number, FromBits(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u), sums.v[u]);
      }
    }
  }
}

template <int kPieces, typename Block>
RECOLLECT_HD void LoadAheadQuery(Block& block, AheadShared<kPieces>& shared, const float* query) {
  block.Phase([&](int t) {
    for (int d = t; d < kPieces * kLanesRead; d += kTopKThreads) {
      shared.query[d / 4 % 2][d / kDotPiece][d % 4] = query[d];
    }
  });
}

// Offers the scores of a step's keys: lane u of a key's eight those of key u.
template <typename Block>
RECOLLECT_HD void OfferStep(Block& block, TopKList& list, const LandmarkTopKPlan& plan, int step,
                            int end,
                            typename Block::template PerThread<Floats<kKeysPerLane>>& sums) {
  block.Phase([&](int t) {
    RECOLLECT_UNROLL
    for (int u = 0; u < kKeysPerLane; ++u) {
      const int candidate = step + u * kKeyGroups + t / kDotLanes;
      if (t % kDotLanes != u || candidate >= end) continue;
      const uint64_t packed = PackCandidate(Mul(sums[t].v[u], plan.scale), candidate);
      if (IsBetterThanLast(list, plan.sizes.n, packed)) Offer(block, list, packed);
    }
  });
}

// Searches one part of the candidates for one query.
template <int kPieces, typename Block>
RECOLLECT_HD void LandmarkPartAhead(Block& block, AheadShared<kPieces>& shared,
                                    const LandmarkTopKOp& op, int64_t part, int64_t query) {
  const LandmarkTopKPlan& plan = op.plan;
  const int64_t begin = part * plan.part_keys, left = plan.sizes.candidates - begin;
  const int first = static_cast<int>(begin);
  const int end = static_cast<int>(begin + (plan.part_keys < left ? plan.part_keys : left));
  typename Block::template PerThread<KeyCursor> cursors(block);
  typename Block::template PerThread<AheadWords<kPieces>> words(block);
  typename Block::template PerThread<Floats<kKeysPerLane>> sums(block);
  ClearList(block, shared.list);
  LoadAheadQuery(block, shared, op.queries + query * plan.sizes.width);
  block.Run([&](int t) {
    cursors[t].Begin(op.segments);
    const StepKeys keys = FindStepKeys(op, cursors[t], first, end, t / kDotLanes);
    RECOLLECT_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      LoadAhead<kPieces>(keys, piece, t % kDotLanes, words[t]);
    }
  });
  for (int step = first; step < end; step += kTopKStep) {
    block.Run([&](int t) {
      const StepKeys next = FindStepKeys(op, cursors[t], step + kTopKStep, end, t / kDotLanes);
      sums[t] = {};
      RECOLLECT_UNROLL
      for (int piece = 0; piece < kPieces; ++piece) {
        AddPiece(shared, words[t], piece, t % kDotLanes, sums[t]);
        LoadAhead<kPieces>(next, piece, t % kDotLanes, words[t]);
      }
    });
    block.XorSum(sums, kDotLanes);
    OfferStep(block, shared.list, plan, step, end, sums);
    SortIfFull(block, shared.list, kTopKStep);
  }
  SortList(block, shared.list);
  block.Run([&](int t) {
    if (t < plan.sizes.n) PartialOf(op, query, part)[t] = shared.list.slots[t];
  });
}

}  // namespace recollect::kernels::cuda
