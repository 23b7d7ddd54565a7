// The thread blocks of linear attention on a device. A column of S depends on no other, so a thread
// block takes kLinearColumns columns of one key-value head of one segment through all rows, in
// order, with its part of S in registers: a thread holds kLaneFeatures neighbouring features of one
// column. The work is a list of reads, one for each row and query head of the group, row after row;
// a row's position enters before the row's first read. kLinearReads reads are one step, whose keys,
// queries and values were loaded a step ahead. For each read and column,
//   S_f = fma(φ(k)_f, v, S_f), when a position enters
//   lane l of plan.lanes: its features in order, sum = fma(φ(q)_f, S_f + S_0f, sum), from 0
//   out = the lanes' sums, added in order
// The result is the same for any division of the rows into steps or calls.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/linear_attention/linear_attention_plan.h"

namespace recollect::kernels::cuda {

// 8 columns are 32 bytes of a row of S, the sector that memory is read in; for 128 columns this
// gives 16 thread blocks to each key-value head of each sequence.
constexpr int kLinearColumns = 8;
constexpr int kLaneFeatures = 8;
constexpr int kMaxLinearLanes = 2 * kMaxLinearHeadDim / kLaneFeatures;
constexpr int kMaxLinearThreads = kMaxLinearLanes * kLinearColumns;
constexpr int kLinearReads = 8;
static_assert(kLinearColumns == kLaneFeatures, "a thread loads one feature of each read");

struct alignas(16) LanePiece {
  float v[kLaneFeatures];
};

struct LinearShared {
  LanePiece queries[kLinearReads][kMaxLinearLanes];
  LanePiece keys[kLinearReads][kMaxLinearLanes];
  // A sum for each thread; the additional columns keep neighbouring reads in different banks.
  float sums[kLinearReads][kMaxLinearThreads + kLinearColumns];
};

// A read: a row and a query head of the group.
struct LinearRead {
  int row;
  int head;
};

RECOLLECT_HD LinearRead Following(LinearRead read, int count, int group) {
  const int head = read.head + count;
  return {read.row + head / group, head % group};
}

// Runs one segment, key-value head and tile of columns.
struct LinearBlocks : Blocks<kMaxLinearThreads, LinearShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, Shared& shared, const LinearAttentionOp& op,
                               BlockIndex at) {
    const int64_t index = at.z;
    const int kv_head = at.y, tile = static_cast<int>(at.x);
    const LinearAttentionShape& shape = op.plan.sizes.shape;
    const LinearAttentionSegment segment = op.segments[index];
    const int rows = static_cast<int>(segment.rows), dim = shape.head_dim, features = 2 * dim;
    const int group = shape.heads / shape.kv_heads;
    const int before =
        rows - static_cast<int>(segment.entering);  // rows without an entering position
    const int threads = op.plan.threads, lanes = op.plan.lanes;
    if (rows <= 0) return;
    const auto column_of = [&](int t) { return tile * kLinearColumns + t % kLinearColumns; };
    // The first of thread t's numbers in a [features, dim] array.
    const auto place_of = [&](int t) {
      return static_cast<int64_t>(t / kLinearColumns) * kLaneFeatures * dim + column_of(t);
    };
    // The number of a thread's features: 0 if it has no features or no column.
    const auto count_of = [&](int t) {
      const int left = features - t / kLinearColumns * kLaneFeatures;
      return column_of(t) >= dim || left < 0 ? 0 : left < kLaneFeatures ? left : kLaneFeatures;
    };

    // A thread's loads for each read: feature t of q and, where a position enters, of its key, and
    // the value of its own column.
    struct Loads {
      float queries[kLinearReads];
      float keys[kLinearReads];
      float values[kLinearReads];
    };
    const auto load = [&](int t, LinearRead read, Loads& loads) {
      RECOLLECT_UNROLL
      for (int i = 0; i < kLinearReads; ++i) {
        const bool reads = read.row < rows && t < features;
        const bool enters = read.row < rows && read.row >= before && read.head == 0;
        const int64_t row_head = static_cast<int64_t>(read.row) * shape.heads + kv_head * group;
        const int64_t entry = static_cast<int64_t>(read.row - before) * shape.kv_heads + kv_head;
        loads.queries[i] = reads ? segment.q[(row_head + read.head) * features + t] : 0.0f;
        loads.keys[i] = enters && t < features ? segment.keys[entry * features + t] : 0.0f;
        loads.values[i] =
            enters && column_of(t) < dim ? segment.values[entry * dim + column_of(t)] : 0.0f;
        if (++read.head == group) read = {read.row + 1, 0};
      }
    };

    typename Block::template PerThread<LanePiece> states(block);
    typename Block::template PerThread<Loads> aheads(block);
    typename Block::template PerThread<Floats<kLinearReads>> values(block);
    float* const state = segment.state + static_cast<int64_t>(kv_head) * features * dim;
    block.Run([&](int t) {
      RECOLLECT_UNROLL
      for (int f = 0; f < kLaneFeatures; ++f) {
        states[t].v[f] = f < count_of(t) ? state[place_of(t) + f * dim] : 0.0f;
      }
      load(t, {0, 0}, aheads[t]);
    });
    for (LinearRead first = {0, 0}; first.row < rows;
         first = Following(first, kLinearReads, group)) {
      block.Phase([&](int t) {
        const int lane = t / kLaneFeatures, f = t % kLaneFeatures;
        RECOLLECT_UNROLL
        for (int i = 0; i < kLinearReads; ++i) {
          shared.queries[i][lane].v[f] = aheads[t].queries[i];
          shared.keys[i][lane].v[f] = aheads[t].keys[i];
          values[t].v[i] = aheads[t].values[i];
        }
        load(t, Following(first, kLinearReads, group), aheads[t]);
      });
      block.Phase([&](int t) {
        const int lane = t / kLinearColumns;
        LanePiece& own = states[t];
        LinearRead read = first;
        RECOLLECT_UNROLL
        for (int i = 0; i < kLinearReads; ++i) {
          if (read.row >= rows) break;
          if (read.head == 0 && read.row >= before) {
            const LanePiece key = shared.keys[i][lane];
            RECOLLECT_UNROLL
            for (int f = 0; f < kLaneFeatures; ++f) {
              own.v[f] = Fma(key.v[f], values[t].v[i], own.v[f]);
            }
          }
          LanePiece sum_of = own;
          if (op.initial != nullptr) {
            const float* const initial =
                op.initial + static_cast<int64_t>(kv_head * group + read.head) * features * dim +
                place_of(t);
            RECOLLECT_UNROLL
            for (int f = 0; f < kLaneFeatures; ++f) {
              if (f < count_of(t)) sum_of.v[f] = Add(sum_of.v[f], initial[f * dim]);
            }
          }
          const LanePiece query = shared.queries[i][lane];
          float sum = 0;
          RECOLLECT_UNROLL
          for (int f = 0; f < kLaneFeatures; ++f) sum = Fma(query.v[f], sum_of.v[f], sum);
          shared.sums[i][t] = sum;
          if (++read.head == group) read = {read.row + 1, 0};
        }
      });
      // The next step writes sums only after its first barrier.
      block.Run([&](int t) {
        for (int o = t; o < kLinearReads * kLinearColumns; o += threads) {
          const int i = o / kLinearColumns, column = o % kLinearColumns;
          const LinearRead read = Following(first, i, group);
          if (read.row >= rows || column_of(column) >= dim) continue;
          float sum = 0;
          RECOLLECT_UNROLL_BY_4
          for (int lane = 0; lane < lanes; ++lane) {
            sum = Add(sum, shared.sums[i][lane * kLinearColumns + column]);
          }
          const int64_t head =
              static_cast<int64_t>(read.row) * shape.heads + kv_head * group + read.head;
          segment.out[head * dim + column_of(column)] = sum;
        }
      });
    }
    if (segment.entering == 0) return;
    block.Run([&](int t) {
      RECOLLECT_UNROLL
      for (int f = 0; f < kLaneFeatures; ++f) {
        if (f < count_of(t)) state[place_of(t) + f * dim] = states[t].v[f];
      }
    });
  }
};

// x the tile of columns, so that blocks that read the same features run together; y the key-value
// head; z the segment.
template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const LinearAttentionOp& op) {
  const LinearAttentionPlan& plan = op.plan;
  RETURN_IF_ERROR(
      CheckPlanned("linear attention", op.segment_count, "segments", plan.sizes.segments));
  RETURN_IF_ERROR(launch.CheckArrays(
      [&] { return CheckLinearAttention(plan, ArrayOf(op.segments, op.segment_count)); }));
  const BlockGrid grid = {plan.tiles, plan.sizes.shape.kv_heads, op.segment_count, plan.threads};
  return launch(LinearBlocks{}, "linear attention", grid, op);
}

}  // namespace recollect::kernels::cuda
