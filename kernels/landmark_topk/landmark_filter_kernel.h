// The thread blocks of the first launch of the search for many queries by a filter: tensor cores
// score all keys of a part for 64 queries that are rounded to Bf16, and each query keeps the 16
// best. landmark_decide_kernel.h says how these become an exact answer.
#pragma once

#include "kernels/landmark_topk/landmark_ahead_kernel.h"

namespace recollect::kernels::cuda {

constexpr int kFilterQueries = 64;  // of a thread block
constexpr int kFilterKeys = 128;    // of a step: 16 a warp
constexpr int kFilterWarps = kTopKThreads / kMatrixWarp;
constexpr int kFilterRoom = kMatrixWarp;  // numbers of a query between two sorts, one for each lane
constexpr int kFilterScores = kFilterQueries * kFilterKeys / kTopKThreads;  // of a thread
static_assert(kFilterKeys == 16 * kFilterWarps && kFilterScores == 32);

// The parts of the workspace, as offsets in bytes, multiples of 8.
struct LandmarkWorkspace {
  int64_t lists = 0;   // after the parts' lists of tiles: [queries, filter_parts, kFilterKept]
  int64_t sizes = 0;   // fp32 [filter_parts]: the largest |κ|² of a part
  int64_t doubts = 0;  // int32 [queries]
  int64_t bytes = 0;
};

RECOLLECT_HD LandmarkWorkspace WorkspaceOf(const LandmarkTopKPlan& plan) {
  const int64_t queries = plan.sizes.queries;
  LandmarkWorkspace at;
  at.lists = queries * plan.parts * plan.sizes.n * static_cast<int64_t>(sizeof(uint64_t));
  at.bytes = at.lists;
  if (plan.strategy != LandmarkTopKPlan::Strategy::kFilter) return at;
  at.sizes =
      at.lists + queries * plan.filter_parts * kFilterKept * static_cast<int64_t>(sizeof(uint64_t));
  at.doubts = at.sizes + (plan.filter_parts + 1) / 2 * 8;
  at.bytes = at.doubts + (queries + 1) / 2 * 8;
  return at;
}

RECOLLECT_HD uint64_t* FilterListOf(const LandmarkTopKOp& op, int64_t query, int64_t part) {
  return reinterpret_cast<uint64_t*>(static_cast<char*>(op.workspace) +
                                     WorkspaceOf(op.plan).lists) +
         (query * op.plan.filter_parts + part) * kFilterKept;
}
RECOLLECT_HD float* FilterSizesOf(const LandmarkTopKOp& op) {
  return reinterpret_cast<float*>(static_cast<char*>(op.workspace) + WorkspaceOf(op.plan).sizes);
}
RECOLLECT_HD int32_t* DoubtsOf(const LandmarkTopKOp& op) {
  return reinterpret_cast<int32_t*>(static_cast<char*>(op.workspace) + WorkspaceOf(op.plan).doubts);
}

// Returns whether a tile of queries of LandmarkPart has one in doubt.
RECOLLECT_HD bool TileInDoubt(const LandmarkTopKOp& op, int64_t tile) {
  bool any = false;
  for (int64_t query = tile * kQueryTile; query < (tile + 1) * kQueryTile; ++query) {
    any = any || (query < op.plan.sizes.queries && DoubtsOf(op)[query] != 0);
  }
  return any;
}

// 16 * kSteps is the width of keys. Rows are padded by 16 bytes, so that eight of them begin in
// different banks.
template <int kSteps>
struct FilterShared {
  static constexpr int kStride = 16 * kSteps + 8;
  alignas(16) uint16_t queries[kFilterQueries * kStride];
  alignas(16) uint16_t keys[2][kFilterKeys * kStride];
  uint64_t found[kFilterQueries][kFilterRoom];
  float least[kFilterQueries];  // a score has to be above it
  int count[kFilterQueries];    // in `found`, or wished to be
  int full;                     // somebody found no room
  float sizes[kFilterWarps];
};

// Where a thread block works: queries [first, first + count), keys [begin, end).
struct FilterShare {
  int64_t first;
  int count;
  int begin, end;
};

RECOLLECT_HD FilterShare FilterShareOf(const LandmarkTopKPlan& plan, int64_t part, int64_t tile) {
  const int64_t first = tile * kFilterQueries, queries = plan.sizes.queries - first;
  const int64_t begin = part * plan.filter_part_keys, keys = plan.sizes.candidates - begin;
  return {first, static_cast<int>(queries < kFilterQueries ? queries : kFilterQueries),
          static_cast<int>(begin),
          static_cast<int>(begin + (keys < plan.filter_part_keys ? keys : plan.filter_part_keys))};
}

// Places that stand for no query accept nothing.
template <int kSteps, typename Block>
RECOLLECT_HD void FilterBegin(Block& block, FilterShared<kSteps>& shared, const LandmarkTopKOp& op,
                              const FilterShare& share) {
  constexpr int kWidth = 16 * kSteps;
  block.Run([&](int t) {
    for (int i = t; i < kFilterQueries * kWidth; i += kTopKThreads) {
      const int q = i / kWidth, d = i % kWidth;
      shared.queries[q * shared.kStride + d] =
          q < share.count ? ToBf16(op.queries[(share.first + q) * kWidth + d]) : 0;
    }
    if (t < kFilterQueries) {
      shared.least[t] = t < share.count ? -Infinity() : Infinity();
      shared.count[t] = 0;
    }
    if (t == 0) shared.full = 0;
  });
}

// Begins to copy the keys of a step; past the end it is the last key again.
template <int kSteps, typename Block>
RECOLLECT_HD void FilterStage(Block& block, const LandmarkTopKOp& op, int step, int end,
                              typename Block::template PerThread<KeyCursor>& cursors,
                              uint16_t* to) {
  constexpr int kPieces = 2 * kSteps;  // of a key
  block.Run([&](int t) {
    RECOLLECT_UNROLL_BY_4
    for (int i = 0; i < kFilterKeys * kPieces / kTopKThreads; ++i) {
      const int row = (i * kTopKThreads + t) / kPieces, d = t % kPieces * kDotPiece;
      const int candidate = step + row < end ? step + row : end - 1;
      block.CopyBeside(cursors[t].Find(op.segments, candidate, 16 * kSteps) + d,
                       to + row * FilterShared<kSteps>::kStride + d);
    }
  });
}

// Adds the squares of the numbers of two words to `sum`.
RECOLLECT_HD float AddSquares(uint32_t a, uint32_t b, float sum) {
  const float numbers[] = {FromBits(a << 16), FromBits(a & 0xffff0000u), FromBits(b << 16),
                           FromBits(b & 0xffff0000u)};
  RECOLLECT_UNROLL
  for (int i = 0; i < 4; ++i) sum = Fma(numbers[i], numbers[i], sum);
  return sum;
}

// Computes scores: 16 keys of each warp times 64 queries. squares: of the two keys of which a
// thread holds numbers.
template <int kSteps, typename Block>
RECOLLECT_HD void FilterScore(Block& block, const FilterShared<kSteps>& shared,
                              const uint16_t* keys,
                              typename Block::template PerThread<Floats<kFilterScores>>& scores,
                              typename Block::template PerThread<Floats<2>>& squares) {
  typename Block::template PerThread<const uint16_t*> rows(block);
  typename Block::template PerThread<Words<4>> a(block), b(block);
  block.Run([&](int t) {
    scores[t] = {};
    squares[t] = {};
  });
  RECOLLECT_UNROLL_BY_4
  for (int step = 0; step < kSteps; ++step) {
    block.Run([&](int t) {
      const int warp = t / kMatrixWarp, lane = t % kMatrixWarp;
      rows[t] = keys + (16 * warp + lane % 16) * shared.kStride + 16 * step + lane / 16 * 8;
    });
    block.template LoadMatrices<false>(rows, a, 0);
    block.Run([&](int t) {
      squares[t].v[0] = AddSquares(a[t].v[0], a[t].v[2], squares[t].v[0]);
      squares[t].v[1] = AddSquares(a[t].v[1], a[t].v[3], squares[t].v[1]);
    });
    RECOLLECT_UNROLL
    for (int pair = 0; pair < kFilterQueries / 16; ++pair) {
      block.Run([&](int t) {
        const int lane = t % kMatrixWarp;
        rows[t] = shared.queries + (16 * pair + lane / 16 * 8 + lane % 8) * shared.kStride +
                  16 * step + lane / 8 % 2 * 8;
      });
      block.template LoadMatrices<false>(rows, b, 0);
      block.MultiplyAdd(a, 0, b, 0, scores, 8 * pair);
      block.MultiplyAdd(a, 0, b, 2, scores, 8 * pair + 4);
    }
  }
}

// Takes the step's keys into the thread's largest |κ|²; what is no number counts as infinite.
template <typename Block>
RECOLLECT_HD void FilterSizes(Block& block, typename Block::template PerThread<Floats<2>>& squares,
                              typename Block::template PerThread<Floats<1>>& largest) {
  block.XorSum(squares, 4);  // the lanes that hold a key
  block.Run([&](int t) {
    RECOLLECT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float size = squares[t].v[half] < Infinity() ? squares[t].v[half] : Infinity();
      largest[t].v[0] = Max(largest[t].v[0], size);
    }
  });
}

// The query of a thread's score i, and its key of the step.
RECOLLECT_HD int FilterQueryOf(int t, int i) { return i / 4 * 8 + 2 * (t % 4) + i % 2; }
RECOLLECT_HD int FilterKeyOf(int t, int i) {
  return t / kMatrixWarp * 16 + t % kMatrixWarp / 4 + 8 * (i / 2 % 2);
}

// Puts scores that are good enough to their queries' numbers, as long as there is room. wanted: a
// bit for each score that nobody has judged or found room for.
template <int kSteps, typename Block>
RECOLLECT_HD void FilterOffer(Block& block, FilterShared<kSteps>& shared, int step, int t,
                              const Floats<kFilterScores>& scores, uint32_t& wanted) {
  RECOLLECT_UNROLL
  for (int i = 0; i < kFilterScores; ++i) {
    const int q = FilterQueryOf(t, i);
    if (!(scores.v[i] > shared.least[q])) wanted &= ~(1u << i);
    if ((wanted >> i & 1u) == 0) continue;
    const int at = block.Increment(&shared.count[q]);
    if (at >= kFilterRoom) continue;
    shared.found[q][at] = PackCandidate(scores.v[i], step + FilterKeyOf(t, i));
    wanted &= ~(1u << i);
  }
  if (wanted != 0) shared.full = 1;
}

// Bits of the scores whose keys are not past the end.
RECOLLECT_HD uint32_t FilterWanted(int t, int step, int end) {
  uint32_t wanted = 0xffffffffu;
  if (step + FilterKeyOf(t, 0) >= end) wanted &= 0xccccccccu;
  if (step + FilterKeyOf(t, 2) >= end) wanted &= 0x33333333u;
  return wanted;
}

constexpr int kWarpQueries = kFilterQueries / kFilterWarps;
struct FilterRanks {
  uint64_t number[kWarpQueries];
  int rank[kWarpQueries];  // kFilterRoom: the lane has none, or its number may stay where it is
};

RECOLLECT_HD int RankOf(const uint64_t* numbers, int count, uint64_t number) {
  int rank = 0;
  for (int i = 0; i < count; ++i) rank += numbers[i] > number ? 1 : 0;
  return rank;
}

// Makes room: of each query that has more than kFilterKept numbers, these are kept, and the last of
// them is what later ones have to beat. A lane for each number, a warp for each eighth query.
template <int kSteps, typename Block>
RECOLLECT_HD void FilterKeep(Block& block, FilterShared<kSteps>& shared) {
  typename Block::template PerThread<FilterRanks> ranks(block);
  block.Phase([&](int t) {
    RECOLLECT_UNROLL
    for (int i = 0; i < kWarpQueries; ++i) {
      const int q = i * kFilterWarps + t / kMatrixWarp, lane = t % kMatrixWarp;
      const int count = shared.count[q] < kFilterRoom ? shared.count[q] : kFilterRoom;
      ranks[t].rank[i] = kFilterRoom;
      if (count <= kFilterKept || lane >= count) continue;
      ranks[t].number[i] = shared.found[q][lane];
      ranks[t].rank[i] = RankOf(shared.found[q], count, ranks[t].number[i]);
    }
  });
  block.Phase([&](int t) {
    RECOLLECT_UNROLL
    for (int i = 0; i < kWarpQueries; ++i) {
      const int q = i * kFilterWarps + t / kMatrixWarp, rank = ranks[t].rank[i];
      if (rank >= kFilterKept) continue;
      const uint64_t number = ranks[t].number[i];
      shared.found[q][rank] = number;
      if (rank < kFilterKept - 1) continue;
      shared.least[q] = number >> 32 == 0 ? -Infinity() : ScoreOf(number);
      shared.count[q] = kFilterKept;
    }
    if (t == 0) shared.full = 0;
  });
}

template <int kSteps, typename Block>
RECOLLECT_HD void FilterEnd(Block& block, FilterShared<kSteps>& shared, const LandmarkTopKOp& op,
                            int64_t part, const FilterShare& share,
                            typename Block::template PerThread<Floats<1>>& largest) {
  FilterKeep(block, shared);
  block.XorMax(largest, kMatrixWarp);
  block.Phase([&](int t) {
    if (t % kMatrixWarp == 0) shared.sizes[t / kMatrixWarp] = largest[t].v[0];
    for (int i = t; i < share.count * kFilterKept; i += kTopKThreads) {
      const int q = i / kFilterKept, place = i % kFilterKept;
      FilterListOf(op, share.first + q, part)[place] =
          place < shared.count[q] ? shared.found[q][place] : 0;
    }
  });
  block.Run([&](int t) {
    if (t != 0 || share.first != 0) return;  // all tiles have the same keys
    float most = 0;
    for (int warp = 0; warp < kFilterWarps; ++warp) most = Max(most, shared.sizes[warp]);
    FilterSizesOf(op)[part] = most;
  });
}

// Keeps the best of one part of the candidates for one tile of 64 queries.
template <int kSteps, typename Block>
RECOLLECT_HD void LandmarkFilter(Block& block, FilterShared<kSteps>& shared,
                                 const LandmarkTopKOp& op, int64_t part, int64_t tile) {
  const FilterShare share = FilterShareOf(op.plan, part, tile);
  typename Block::template PerThread<KeyCursor> cursors(block);
  typename Block::template PerThread<Floats<kFilterScores>> scores(block);
  typename Block::template PerThread<Floats<2>> squares(block);
  typename Block::template PerThread<Floats<1>> largest(block);
  typename Block::template PerThread<uint32_t> wanted(block);
  block.Run([&](int t) {
    cursors[t].Begin(op.segments);
    largest[t] = {};
  });
  FilterStage<kSteps>(block, op, share.begin, share.end, cursors, shared.keys[0]);
  FilterBegin(block, shared, op, share);
  int now = 0;
  for (int step = share.begin; step < share.end; step += kFilterKeys, now ^= 1) {
    block.AwaitCopies();
    block.Barrier();  // all see these keys, and are done with those of the step before
    if (step + kFilterKeys < share.end) {
      FilterStage<kSteps>(block, op, step + kFilterKeys, share.end, cursors, shared.keys[now ^ 1]);
    }
    FilterScore(block, shared, shared.keys[now], scores, squares);
    FilterSizes(block, squares, largest);
    block.Run([&](int t) { wanted[t] = FilterWanted(t, step, share.end); });
    for (bool again = true; again;) {
      block.Phase([&](int t) { FilterOffer(block, shared, step, t, scores[t], wanted[t]); });
      again = shared.full != 0;
      if (again) FilterKeep(block, shared);
    }
  }
  FilterEnd(block, shared, op, part, share, largest);
}

}  // namespace recollect::kernels::cuda
