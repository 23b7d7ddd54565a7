// The thread blocks of range attention on a device. Both strategies compute, for each (row, head)
// and split of the row's entries,
//   s_j in the order of cuda_math.h's dot products, times 1 / sqrt(head_dim); with ALiBi, one
//   additional Fma of -slope and the distance
//   m = max s_j;  p_j = exp(s_j - m);  their sum: lane l of 32 adds p_l, p_(l+32), …, then the
//   lanes are added as in a dot product, from 16 lanes apart down to 1
//   o_d: group g of kValueGroups goes through the entries g, g + kValueGroups, … with one Fma each,
//   then the groups are added in order
// and join the splits, (m, sum, o), in order with cuda_math.h's ScalesOf and Join, beginning with
// the empty part: the same bits.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/range_attention/range_attention_plan.h"

namespace recollect::kernels::cuda {

constexpr int kRangeThreads = 128;
constexpr int kRangeWarp = 32;
// Enough to hide the latency of a block's beginning, few enough that one long row fills a device.
constexpr int kSplitEntries = 256;
constexpr int kValueGroups = 8;
constexpr int kValueLanes = kRangeThreads / kValueGroups;
constexpr int kValuePiece = 4;
static_assert(kRangeThreads >= kMaxRangeHeadDim, "a thread for each number of the output");

struct RangeShared {
  alignas(16) float query[kMaxRangeHeadDim];
  float scores[kSplitEntries];
  float values[kValueGroups][kMaxRangeHeadDim];
  float output[kMaxRangeHeadDim];  // o of the split
  SoftmaxPart part;                // the split's
};

// A row's ranges as [kMaxRanges][begin, end].
RECOLLECT_HD const int64_t* BoundsOf(const RangeAttentionOp& op, int64_t row) {
  static_assert(sizeof(RangeSet) == kMaxRanges * 2 * sizeof(int64_t));
  return reinterpret_cast<const int64_t*>(op.sets + row);
}

RECOLLECT_HD int64_t LengthOf(const int64_t* bounds, int part) {
  const int64_t length = bounds[2 * part + 1] - bounds[2 * part];
  return length > 0 ? length : 0;
}

// The entries of a row and head: those of its ranges, or its list.
struct RowEntries {
  const int64_t* bounds;
  const int32_t* list;  // null: bounds are used
};

RECOLLECT_HD RowEntries RowEntriesOf(const RangeAttentionOp& op, int64_t row, int head) {
  const RangeAttentionSizes& sizes = op.plan.sizes;
  if (op.lists.counts == nullptr) return {BoundsOf(op, row), nullptr};
  return {nullptr, op.lists.entries + (row * sizes.heads + head) * sizes.max_entries};
}

RECOLLECT_HD int64_t CountOf(const RangeAttentionOp& op, int64_t row, int head) {
  if (op.lists.counts != nullptr) return op.lists.counts[row * op.plan.sizes.heads + head];
  int64_t entries = 0;
  for (int p = 0; p < kMaxRanges; ++p) entries += LengthOf(BoundsOf(op, row), p);
  return entries;
}

// The place of an entry: its key and value are entry `entry` of part `part`.
struct EntryPlace {
  int part;
  int64_t entry;
};

// REQUIRES: 0 <= index < CountOf.
RECOLLECT_HD EntryPlace PlaceOf(const RowEntries& entries, int64_t index) {
  if (entries.list != nullptr) return {0, entries.list[index]};
  int part = 0;
  while (index >= LengthOf(entries.bounds, part)) index -= LengthOf(entries.bounds, part++);
  return {part, entries.bounds[2 * part] + index};
}

// Computes one split of one row and head, and leaves its part and output in `shared`. shared.query
// is already set. REQUIRES: the split has entries.
template <typename Block>
RECOLLECT_HD void RangeSplit(Block& block, RangeShared& shared, const RangeAttentionOp& op,
                             int64_t row, int head, int64_t split) {
  constexpr int kGroups = kRangeThreads / kDotLanes;
  constexpr int kPerLane = 4;  // keys whose loads a thread has in flight
  const RangeAttentionSizes& sizes = op.plan.sizes;
  const int dim = sizes.head_dim;
  const int64_t stride = static_cast<int64_t>(sizes.kv_heads) * dim;
  const int64_t at = static_cast<int64_t>(head * sizes.kv_heads / sizes.heads) * dim;
  const KvSpan* const parts = op.parts + row * op.parts_per_row;
  const RowEntries entries = RowEntriesOf(op, row, head);
  const int64_t first = split * kSplitEntries;
  const int64_t left = CountOf(op, row, head) - first;
  const int count = static_cast<int>(left < kSplitEntries ? left : kSplitEntries);
  const bool aligned = dim % kDotPiece == 0;  // an entry's heads; a part's start is checked below

  typename Block::template PerThread<Floats<kPerLane>> dots(block);
  for (int begin = 0; begin < count; begin += kGroups * kPerLane) {
    block.Run([&](int t) {
      const int lane = t % kDotLanes;
      RECOLLECT_UNROLL
      for (int u = 0; u < kPerLane; ++u) {
        const int i = begin + u * kGroups + t / kDotLanes;
        float sum = 0;
        if (i < count) {
          const EntryPlace place = PlaceOf(entries, first + i);
          const float* keys = parts[place.part].keys;
          sum = DotLane(shared.query, keys + place.entry * stride + at, dim, lane,
                        aligned && IsAligned(keys), sum);
        }
        dots[t].v[u] = sum;
      }
    });
    block.XorSum(dots, kDotLanes);
    block.Run([&](int t) {
      RECOLLECT_UNROLL
      for (int u = 0; u < kPerLane; ++u) {
        if (t % kDotLanes != u) continue;
        const int i = begin + u * kGroups + t / kDotLanes;
        const float score = Mul(dots[t].v[u], op.plan.scale);
        shared.scores[i] = op.slopes == nullptr
                               ? score
                               : Fma(-op.slopes[head], static_cast<float>(left - 1 - i), score);
      }
    });
  }
  block.Barrier();

  // All warps compute the same; the barrier keeps the scores until all have read them.
  typename Block::template PerThread<Floats<1>> maxima(block), sums(block);
  block.Phase([&](int t) {
    float max = -Infinity();
    for (int i = t % kRangeWarp; i < count; i += kRangeWarp) max = Max(max, shared.scores[i]);
    maxima[t].v[0] = max;
  });
  block.XorMax(maxima, kRangeWarp);
  block.Phase([&](int t) {
    for (int i = t; i < count; i += kRangeThreads) {
      shared.scores[i] = Exp(Add(shared.scores[i], -maxima[t].v[0]));
    }
  });
  block.Run([&](int t) {
    float sum = 0;
    for (int i = t % kRangeWarp; i < count; i += kRangeWarp) sum = Add(sum, shared.scores[i]);
    sums[t].v[0] = sum;
  });
  block.XorSum(sums, kRangeWarp);

  block.Phase([&](int t) {
    if (t == 0) shared.part = {maxima[t].v[0], sums[t].v[0]};
    const int group = t / kValueLanes;
    for (int d = t % kValueLanes * kValuePiece; d < dim; d += kValueLanes * kValuePiece) {
      float sum[kValuePiece] = {};
      RECOLLECT_UNROLL_BY_4
      for (int i = group; i < count; i += kValueGroups) {
        const EntryPlace place = PlaceOf(entries, first + i);
        const float* values = parts[place.part].values;
        float numbers[kValuePiece];
        LoadFour(values + place.entry * stride + at + d, dim - d, aligned && IsAligned(values),
                 numbers);
        RECOLLECT_UNROLL
        for (int u = 0; u < kValuePiece; ++u) sum[u] = Fma(shared.scores[i], numbers[u], sum[u]);
      }
      RECOLLECT_UNROLL
      for (int u = 0; u < kValuePiece; ++u) {
        if (d + u < dim) shared.values[group][d + u] = sum[u];
      }
    }
  });
  block.Phase([&](int t) {
    if (t >= dim) return;
    float sum = shared.values[0][t];
    for (int g = 1; g < kValueGroups; ++g) sum = Add(sum, shared.values[g][t]);
    shared.output[t] = sum;
  });
}

template <typename Block>
RECOLLECT_HD void LoadQuery(Block& block, RangeShared& shared, const RangeAttentionOp& op,
                            int64_t row, int head) {
  const int dim = op.plan.sizes.head_dim;
  block.Phase([&](int t) {
    if (t >= RoundUpToPiece(dim)) return;
    shared.query[t] = t < dim ? op.q[row * op.q_stride + head * dim + t] : 0.0f;
  });
}

// Returns the place in the workspace for the maximum, the sum and o[head_dim] of a split.
RECOLLECT_HD float* PartialOf(const RangeAttentionOp& op, int64_t row, int head, int64_t split) {
  const RangeAttentionSizes& sizes = op.plan.sizes;
  return static_cast<float*>(op.workspace) +
         ((row * sizes.heads + head) * op.plan.splits + split) * (2 + sizes.head_dim);
}

RECOLLECT_HD int64_t SplitsOfRow(const RangeAttentionOp& op, int64_t row, int head) {
  return (CountOf(op, row, head) + kSplitEntries - 1) / kSplitEntries;
}

// Computes one (row, head, split), for kBySplit. Splits that the row does not have are not written.
template <typename Block>
RECOLLECT_HD void RangeBySplit(Block& block, RangeShared& shared, const RangeAttentionOp& op,
                               int64_t row, int head, int64_t split) {
  if (split >= SplitsOfRow(op, row, head)) return;
  LoadQuery(block, shared, op, row, head);
  RangeSplit(block, shared, op, row, head, split);
  float* const partial = PartialOf(op, row, head, split);
  block.Run([&](int t) {
    if (t == 0) {
      partial[0] = shared.part.max;
      partial[1] = shared.part.sum;
    }
    if (t < op.plan.sizes.head_dim) partial[2 + t] = shared.output[t];
  });
}

// A thread's part of a row's joined splits.
struct RangeJoined {
  SoftmaxPart part;
  float output;
};

// Joins the splits of one (row, head): the second launch of kBySplit.
template <typename Block>
RECOLLECT_HD void RangeMerge(Block& block, const RangeAttentionOp& op, int64_t row, int head) {
  const RangeAttentionSizes& sizes = op.plan.sizes;
  const int64_t splits = SplitsOfRow(op, row, head);
  block.Run([&](int t) {
    if (t >= sizes.head_dim) return;
    RangeJoined joined = {EmptyPart(), 0.0f};
    for (int64_t split = 0; split < splits; ++split) {
      const float* partial = PartialOf(op, row, head, split);
      JoinSplit(joined.part, joined.output, partial[0], partial[1], partial[2 + t]);
    }
    op.out[(row * sizes.heads + head) * sizes.head_dim + t] =
        OutputOf(joined.part.sum, joined.output);
  });
}

// Computes plan.block_rows rows of one head, one after the other, for kByRow.
template <typename Block>
RECOLLECT_HD void RangeByRow(Block& block, RangeShared& shared, const RangeAttentionOp& op,
                             int64_t tile, int head) {
  const RangeAttentionSizes& sizes = op.plan.sizes;
  const int64_t begin = tile * op.plan.block_rows;
  const int64_t end =
      begin + op.plan.block_rows < sizes.rows ? begin + op.plan.block_rows : sizes.rows;
  typename Block::template PerThread<RangeJoined> joined(block);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t splits = SplitsOfRow(op, row, head);
    LoadQuery(block, shared, op, row, head);
    block.Run([&](int t) { joined[t] = {EmptyPart(), 0.0f}; });
    for (int64_t split = 0; split < splits; ++split) {
      RangeSplit(block, shared, op, row, head, split);
      block.Phase([&](int t) {
        const float output = t < sizes.head_dim ? shared.output[t] : 0.0f;
        JoinSplit(joined[t].part, joined[t].output, shared.part.max, shared.part.sum, output);
      });
    }
    block.Run([&](int t) {
      if (t >= sizes.head_dim) return;
      op.out[(row * sizes.heads + head) * sizes.head_dim + t] =
          OutputOf(joined[t].part.sum, joined[t].output);
    });
  }
}

struct RangeSplitBlocks : Blocks<kRangeThreads, RangeShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const RangeAttentionOp& op,
                               BlockIndex at) {
    RangeBySplit(block, shared, op, at.x, at.y, at.z);
  }
};
struct RangeMergeBlocks : Blocks<kRangeThreads> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const RangeAttentionOp& op, BlockIndex at) {
    RangeMerge(block, op, at.x, at.y);
  }
};
struct RangeRowBlocks : Blocks<kRangeThreads, RangeShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const RangeAttentionOp& op,
                               BlockIndex at) {
    RangeByRow(block, shared, op, at.x, at.y);
  }
};

template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const RangeAttentionOp& op) {
  const RangeAttentionPlan& plan = op.plan;
  const int64_t rows = plan.sizes.rows, heads = plan.sizes.heads;
  RETURN_IF_ERROR(launch.CheckArrays([&] {
    if (op.lists.counts != nullptr) return absl::OkStatus();
    return CheckRanges(plan, ArrayOf(op.sets, rows));
  }));
  if (plan.strategy == RangeAttentionPlan::Strategy::kByRow) {
    const BlockGrid grid = {CeilDiv(rows, plan.block_rows), heads};
    return launch(RangeRowBlocks{}, "range attention, rows", grid, op);
  }
  RETURN_IF_ERROR(
      launch(RangeSplitBlocks{}, "range attention, splits", {rows, heads, plan.splits}, op));
  return launch(RangeMergeBlocks{}, "range attention, merge", {rows, heads}, op);
}

}  // namespace recollect::kernels::cuda
