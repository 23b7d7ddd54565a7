// The thread blocks of the choice of blocks on a device. "Block" of positions and "thread block"
// are different things here. Two launches. In the first, a thread block takes one part of the
// blocks, one head and kRowTile rows: 8 threads for each block of positions add their shares of
// max(q_i low_i, q_i high_i) in the order of cuda_math.h's dot products, with one rounding for each
// product and sum. Neighbouring rows of one sequence read the bounds once. The best blocks of each
// part go to the workspace by way of landmark top-k's lists. In the second launch, a thread block
// for each row and head merges the lists and writes the entries.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/block_topk/block_topk_plan.h"
#include "kernels/cuda/cuda_order.h"
#include "kernels/landmark_topk/landmark_topk_kernel.h"
#include "kernels/range_attention/range_attention_plan.h"

namespace recollect::kernels::cuda {

constexpr int kRowTile = 4;
constexpr int kBlocksPerLane = 2;  // blocks whose loads a thread has in flight
constexpr int kScoreStep = kKeyGroups * kBlocksPerLane;
static_assert(kScoreStep <= kPendingSlots, "what a step finds has to fit");

// A number that is greater for a greater score, then for a lower block; never 0. NaN ranks with
// -infinity, as in ChooseBlocks, and blocks with these scores may be chosen.
RECOLLECT_HD uint64_t PackBlock(float score, int64_t index) {
  const uint64_t packed = PackChoice(score, static_cast<int32_t>(index));
  return packed == 0 ? ~static_cast<uint32_t>(index) : packed;
}

// The number of whole blocks before the row's own.
RECOLLECT_HD int64_t BlocksBefore(const BlockTopKOp& op, int64_t row) {
  return op.rows[row].position / op.plan.sizes.block;
}

RECOLLECT_HD uint64_t* BestOf(const BlockTopKOp& op, int64_t row, int head, int64_t part) {
  const BlockTopKSizes& sizes = op.plan.sizes;
  return static_cast<uint64_t*>(op.workspace) +
         ((row * sizes.heads + head) * op.plan.parts + part) * (sizes.count - 1);
}

// The bounds of a row's blocks in one part, which it has up to block `end`.
struct BlockBounds {
  const float* low;
  const float* high;
  int64_t end;
};

RECOLLECT_HD bool SameBounds(const BlockBounds& a, const BlockBounds& b) {
  return a.low == b.low && a.high == b.high && a.end == b.end;
}

struct BlockPartShared {
  alignas(16) float queries[kRowTile][kMaxRangeHeadDim];
  BlockBounds bounds[kRowTile];
  TopKList lists[kRowTile];
};

// Ranks one part of the blocks for one head of one tile of rows. Writes nothing if no row of the
// tile has blocks in this part.
// REQUIRES: count > 1.
struct BlockParts : Blocks<kTopKThreads, BlockPartShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const BlockTopKOp& op, BlockIndex at) {
    const int64_t tile = at.x, part = at.z;
    const int head = at.y;
    const BlockTopKSizes& sizes = op.plan.sizes;
    const int dim = sizes.head_dim, n = static_cast<int>(sizes.count) - 1;
    const int64_t first_row = tile * kRowTile;
    const int rows =
        static_cast<int>(sizes.rows - first_row < kRowTile ? sizes.rows - first_row : kRowTile);
    const int64_t begin = part * op.plan.part_blocks;
    const auto end_of = [&](int q) {
      const int64_t before = q < rows ? BlocksBefore(op, first_row + q) : 0;
      return before < begin + op.plan.part_blocks ? before : begin + op.plan.part_blocks;
    };
    int64_t end = begin;
    for (int q = 0; q < rows; ++q) end = end_of(q) > end ? end_of(q) : end;
    if (end == begin) return;

    for (int q = 0; q < kRowTile; ++q) ClearList(block, shared.lists[q]);
    block.Phase([&](int t) {
      if (t < kRowTile) {
        const BlockTopKRow& row = op.rows[first_row + (t < rows ? t : 0)];
        shared.bounds[t] = {row.low, row.high, end_of(t)};
      }
      for (int i = t; i < kRowTile * RoundUpToPiece(dim); i += kTopKThreads) {
        const int q = i / RoundUpToPiece(dim), d = i % RoundUpToPiece(dim);
        shared.queries[q][d] =
            q < rows && d < dim ? op.q[(first_row + q) * op.q_stride + head * dim + d] : 0.0f;
      }
    });

    typename Block::template PerThread<Floats<kBlocksPerLane * kRowTile>> scores(block);
    for (int64_t step = begin; step < end; step += kScoreStep) {
      block.Run([&](int t) {
        const int group = t / kDotLanes, lane = t % kDotLanes;
        Floats<kBlocksPerLane* kRowTile> sums = {};
        for (int piece = lane; piece * kDotPiece < dim; piece += kDotLanes) {
          float low[kBlocksPerLane][kDotPiece], high[kBlocksPerLane][kDotPiece];
          RECOLLECT_UNROLL
          for (int q = 0; q < kRowTile; ++q) {
            const BlockBounds bounds = shared.bounds[q];
            if (bounds.end <= step) continue;
            if (q == 0 || !SameBounds(bounds, shared.bounds[q - 1])) {
              RECOLLECT_UNROLL
              for (int u = 0; u < kBlocksPerLane; ++u) {
                // Past the end, the last block is scored again and not offered.
                int64_t index = step + u * kKeyGroups + group;
                if (index >= bounds.end) index = bounds.end - 1;
                const int64_t key = (index * sizes.heads + head) * dim;
                LoadPiece(bounds.low + key, piece, dim, IsAligned(bounds.low + key), low[u]);
                LoadPiece(bounds.high + key, piece, dim, IsAligned(bounds.high + key), high[u]);
              }
            }
            RECOLLECT_UNROLL
            for (int i = 0; i < kDotPiece; ++i) {
              const float number = shared.queries[q][piece * kDotPiece + i];
              RECOLLECT_UNROLL
              for (int u = 0; u < kBlocksPerLane; ++u) {
                float& sum = sums.v[u * kRowTile + q];
                sum = Add(sum, Max(Mul(number, low[u][i]), Mul(number, high[u][i])));
              }
            }
          }
        }
        scores[t] = sums;
      });
      block.XorSum(scores, kDotLanes);
      block.Phase([&](int t) {
        const int group = t / kDotLanes, lane = t % kDotLanes;
        RECOLLECT_UNROLL
        for (int i = 0; i < kBlocksPerLane * kRowTile; ++i) {
          const int u = i / kRowTile, q = i % kRowTile;
          const int64_t index = step + u * kKeyGroups + group;
          if (i % kDotLanes != lane || index >= shared.bounds[q].end) continue;
          const uint64_t packed = PackBlock(scores[t].v[i], index);
          if (IsBetterThanLast(shared.lists[q], n, packed)) Offer(block, shared.lists[q], packed);
        }
      });
      for (int q = 0; q < rows; ++q) SortIfFull(block, shared.lists[q], kScoreStep);
    }
    for (int q = 0; q < rows; ++q) SortList(block, shared.lists[q]);
    block.Run([&](int t) {
      for (int q = 0; q < rows; ++q) {
        if (t < n) BestOf(op, first_row + q, head, part)[t] = shared.lists[q].slots[t];
      }
    });
  }
};

// The positions of a pattern before `limit`, ascending: [0, initial), then `dilated` positions from
// `first` on, `dilation` apart, then [window, limit).
struct PatternCut {
  int64_t initial;
  int64_t first;
  int64_t dilation;
  int64_t dilated;
  int64_t window;
  int64_t limit;
};

RECOLLECT_HD int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
RECOLLECT_HD int64_t Greatest(int64_t a, int64_t b) { return a > b ? a : b; }

RECOLLECT_HD PatternCut CutPattern(const BlockPattern& pattern, int64_t position, int64_t limit) {
  PatternCut cut = {Least(pattern.initial, limit), 0, 1, 0, 0, limit};
  const int64_t window = position - pattern.window;
  cut.window = Least(Greatest(window, cut.initial), limit);
  if (pattern.dilation < 1) return cut;
  cut.dilation = pattern.dilation;
  const int64_t from = Greatest(cut.initial, position - pattern.span), end = Least(window, limit);
  cut.first = (from + cut.dilation) / cut.dilation * cut.dilation - 1;
  cut.dilated = end > cut.first ? (end - cut.first + cut.dilation - 1) / cut.dilation : 0;
  return cut;
}

// The number of the pattern's positions below x. REQUIRES: x <= cut.limit.
RECOLLECT_HD int64_t PatternBefore(const PatternCut& cut, int64_t x) {
  const int64_t dilated = x > cut.first ? (x - cut.first + cut.dilation - 1) / cut.dilation : 0;
  return Least(x, cut.initial) + Least(dilated, cut.dilated) + Greatest(x - cut.window, 0);
}

// The pattern's position with i positions before it.
RECOLLECT_HD int64_t PatternAt(const PatternCut& cut, int64_t i) {
  if (i < cut.initial) return i;
  i -= cut.initial;
  return i < cut.dilated ? cut.first + i * cut.dilation : cut.window + i - cut.dilated;
}

struct BlockMergeShared {
  TopKList list;
  int64_t begins[kMaxDeviceTopK];     // of the chosen blocks, ascending
  int64_t more[kMaxDeviceTopK];       // positions of a chosen block that the pattern lacks
  int64_t added[kMaxDeviceTopK + 1];  // sum of `more` over the chosen blocks before it
};

// Merges the parts' lists of one row and head and writes its entries: ascending, each once.
struct BlockMerges : Blocks<kTopKThreads, BlockMergeShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const BlockTopKOp& op, BlockIndex at) {
    const int64_t row = at.x;
    const int head = at.y;
    const BlockTopKSizes& sizes = op.plan.sizes;
    const int n = static_cast<int>(sizes.count) - 1;
    const int64_t size = sizes.block, position = op.rows[row].position;
    const int64_t before = BlocksBefore(op, row), own = before * size;
    const int chosen = static_cast<int>(Least(before, n));
    TopKList& list = shared.list;
    if (chosen > 0) {
      const int64_t parts = (before + op.plan.part_blocks - 1) / op.plan.part_blocks;
      MergeNumbers(block, list, BestOf(op, row, head, 0), parts * n, n);
      // With the scores removed, the numbers sort by index, the lowest first.
      block.Phase(
          [&](int t) { list.slots[t] = t < chosen ? static_cast<uint32_t>(list.slots[t]) : 0; });
      SortList(block, list);
    }

    // The row's own block has all positions from `own` on, so the pattern matters only before it.
    const PatternCut cut = CutPattern(op.patterns[head * op.patterns_per_head], position, own);
    block.Phase([&](int t) {
      if (t >= chosen) return;
      const int64_t begin = ChoiceOf(list.slots[t]) * size;
      shared.begins[t] = begin;
      shared.more[t] = size - (PatternBefore(cut, begin + size) - PatternBefore(cut, begin));
    });
    block.Phase([&](int t) {
      for (int c = t; c <= chosen; c += kTopKThreads) {
        int64_t sum = 0;
        for (int earlier = 0; earlier < c; ++earlier) sum += shared.more[earlier];
        shared.added[c] = sum;
      }
    });
    block.Run([&](int t) {
      const int64_t of_pattern = PatternBefore(cut, own);
      const int64_t of_own = position + 1 - own, first_own = of_pattern + shared.added[chosen];
      const int64_t place = row * sizes.heads + head;
      int32_t* const entries = op.entries + place * sizes.max_entries;
      if (t == 0) op.counts[place] = static_cast<int32_t>(first_own + of_own);
      for (int64_t i = t; i < of_own; i += kTopKThreads) {
        entries[first_own + i] = static_cast<int32_t>(own + i);
      }
      for (int c = 0; c < chosen; ++c) {
        const int64_t begin = shared.begins[c], first = PatternBefore(cut, begin) + shared.added[c];
        for (int64_t i = t; i < size; i += kTopKThreads) {
          entries[first + i] = static_cast<int32_t>(begin + i);
        }
      }
      for (int64_t i = t; i < of_pattern; i += kTopKThreads) {
        const int64_t found = PatternAt(cut, i);
        int c = 0;  // chosen blocks that begin at or before it
        for (int end = chosen; c < end;) {
          const int middle = (c + end) / 2;
          if (shared.begins[middle] <= found) {
            c = middle + 1;
          } else {
            end = middle;
          }
        }
        if (c > 0 && found < shared.begins[c - 1] + size) continue;
        entries[i + shared.added[c]] = static_cast<int32_t>(found);
      }
    });
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const BlockTopKOp& op) {
  const BlockTopKPlan& plan = op.plan;
  const int64_t rows = plan.sizes.rows, heads = plan.sizes.heads;
  if (rows == 0) return absl::OkStatus();
  RETURN_IF_ERROR(launch.CheckArrays([&] {
    const int64_t patterns = op.patterns_per_head == 0 ? 1 : heads;
    return CheckBlockTopK(plan, ArrayOf(op.rows, rows), ArrayOf(op.patterns, patterns));
  }));
  RETURN_IF_ERROR(
      launch(BlockParts{}, "block top-k, parts", {plan.row_tiles, heads, plan.parts}, op));
  return launch(BlockMerges{}, "block top-k, lists", {rows, heads}, op);
}

}  // namespace recollect::kernels::cuda
