// The thread blocks of a gated scan on a device. Both ways compute, for each channel and row,
//   g = 1 / (1 + exp(-(z + bias)));  s = fma(g, s, (1 - g) x);  y = s
// in this order of roundings, row after row: the same bits. 1 - g comes from the rounded g, so that
// the two weights add up to 1 however g was rounded.
#pragma once

#include "kernels/block/launch.h"
#include "kernels/gated_scan/gated_scan_plan.h"

namespace recollect::kernels::cuda {

// By channel.
constexpr int kChannelThreads = 128;
constexpr int kRowsAhead = 8;  // whose loads are in flight at once

// By tile: a thread loads and stores units of 4 rows of one channel. 16 channels are 64 bytes of a
// row, two of the sectors that memory is read in; of 2048 channels they give nearly every
// multiprocessor of an H200 a block, and of keys and values of one channel a whole warp.
constexpr int kTileThreads = 512;
constexpr int kTileChannels = 16;
constexpr int kUnitRows = 4;
constexpr int kChainThreads = kMaxScanInputs * kTileChannels;
constexpr int kStepUnits = (kTileThreads - kChainThreads) / kTileChannels;
constexpr int kStepRows = kStepUnits * kUnitRows;
// Steps whose loads are in flight. 120 rows of z and one x are 15 KiB, and a multiprocessor uses
// its share of the bandwidth with about 30 on the way.
constexpr int kStepsAhead = 3;
// Units whose loads from shared memory the recurrence has in flight.
constexpr int kSharedAhead = 2;

// Numbers of neighbouring rows, in registers.
template <int kRows>
struct alignas(kRows % 4 == 0 ? 16 : 4) ScanRows {
  float v[kRows];
};
using ScanUnit = ScanRows<kUnitRows>;

// Two steps take turns. A channel has room for one unit more than it uses, so that eight
// neighbouring channels lie in different banks.
struct ScanShared {
  ScanUnit gates[2][kTileChannels][kStepUnits + 1];
  ScanUnit values[2][kChainThreads][kStepUnits + 1];  // (1 - g) x, then y
};

// The recurrence of one channel and input.
struct ScanChain {
  float state;
  int left;  // rows before it restarts
};

RECOLLECT_HD ScanChain BeginChain(const GatedScanOp& op, int64_t first, float state) {
  const int64_t chunk = op.plan.sizes.chunk;
  return {state, chunk == 0 ? INT32_MAX : static_cast<int>((chunk - first % chunk) % chunk)};
}

// Turns (1 - g) x of the first `count` rows into y; the other rows do not matter.
template <int kRows>
RECOLLECT_HD void RunRows(ScanChain& chain, int64_t chunk, const ScanRows<kRows>& gates,
                          ScanRows<kRows>& values, int count) {
  if (count >= kRows && chain.left >= kRows) {
    RECOLLECT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      chain.state = values.v[r] = Fma(gates.v[r], chain.state, values.v[r]);
    }
    chain.left -= kRows;
    return;
  }
  RECOLLECT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (r >= count) break;
    if (chain.left == 0) chain = {0.0f, static_cast<int>(chunk)};
    chain.state = values.v[r] = Fma(gates.v[r], chain.state, values.v[r]);
    --chain.left;
  }
}

// Rows from `count` on are 0. The case of all rows is separate, so that the compiler adds up
// strides instead of multiplying for each row.
template <int kRows>
RECOLLECT_HD ScanRows<kRows> LoadRows(const float* from, int64_t stride, int count) {
  ScanRows<kRows> rows;
  if (count >= kRows) {
    RECOLLECT_UNROLL
    for (int r = 0; r < kRows; ++r) rows.v[r] = from[r * stride];
  } else {
    RECOLLECT_UNROLL
    for (int r = 0; r < kRows; ++r) rows.v[r] = r < count ? from[r * stride] : 0.0f;
  }
  return rows;
}

template <int kRows>
RECOLLECT_HD void StoreRows(float* to, int64_t stride, int count, const ScanRows<kRows>& rows) {
  if (count >= kRows) {
    RECOLLECT_UNROLL
    for (int r = 0; r < kRows; ++r) to[r * stride] = rows.v[r];
  } else {
    RECOLLECT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (r < count) to[r * stride] = rows.v[r];
    }
  }
}

// z and x as they come from memory.
template <int kInputs, int kRows>
struct ScanLoads {
  ScanRows<kRows> z;
  ScanRows<kRows> x[kInputs];
};

// `at`: offset from the segment's beginning, in floats.
template <int kInputs, int kRows>
RECOLLECT_HD ScanLoads<kInputs, kRows> LoadInputs(const GatedScanOp& op,
                                                  const GatedScanSegment& segment, int64_t at,
                                                  int count) {
  ScanLoads<kInputs, kRows> loads;
  loads.z = LoadRows<kRows>(segment.z + at, op.stride, count);
  RECOLLECT_UNROLL
  for (int i = 0; i < kInputs; ++i) {
    loads.x[i] = LoadRows<kRows>(segment.x[i] + at, op.stride, count);
  }
  return loads;
}

RECOLLECT_HD float BiasOf(const GatedScanOp& op, int64_t channel) {
  return op.bias == nullptr ? 0.0f : op.bias[channel];
}

template <int kRows>
RECOLLECT_HD ScanRows<kRows> GatesOf(const ScanRows<kRows>& z, float bias) {
  ScanRows<kRows> gates;
  RECOLLECT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    gates.v[r] = Div(1.0f, Add(1.0f, Exp(-Add(z.v[r], bias))));
  }
  return gates;
}

// (1 - g) x.
template <int kRows>
RECOLLECT_HD ScanRows<kRows> WeighRows(const ScanRows<kRows>& gates, const ScanRows<kRows>& x) {
  ScanRows<kRows> values;
  RECOLLECT_UNROLL
  for (int r = 0; r < kRows; ++r) values.v[r] = Mul(Add(1.0f, -gates.v[r]), x.v[r]);
  return values;
}

// kRows rows of one channel from `row` on.
template <int kInputs, int kRows>
RECOLLECT_HD void ScanChannelRows(const GatedScanOp& op, const GatedScanSegment& segment,
                                  int64_t channel, int row, float bias,
                                  ScanChain (&chains)[kInputs]) {
  const ScanLoads<kInputs, kRows> loads =
      LoadInputs<kInputs, kRows>(op, segment, row * op.stride + channel, kRows);
  const ScanRows<kRows> gates = GatesOf(loads.z, bias);
  RECOLLECT_UNROLL
  for (int i = 0; i < kInputs; ++i) {
    ScanRows<kRows> values = WeighRows(gates, loads.x[i]);
    RunRows(chains[i], op.plan.sizes.chunk, gates, values, kRows);
    StoreRows(segment.y[i] + row * op.y_stride + channel, op.y_stride, kRows, values);
  }
}

// By channel: kChannelThreads channels of one segment.
template <int kInputs>
struct ScanChannelBlocks : Blocks<kChannelThreads> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, NoShared&, const GatedScanOp& op, BlockIndex at) {
    const int64_t index = at.y, tile = at.x;
    block.Run([&](int t) {
      const GatedScanSegment segment = op.segments[index];
      const int rows = static_cast<int>(segment.rows);
      const int64_t channel = tile * kChannelThreads + t;
      if (rows <= 0 || channel >= op.plan.sizes.channels) return;
      const float bias = BiasOf(op, channel);
      ScanChain chains[kInputs];
      RECOLLECT_UNROLL
      for (int i = 0; i < kInputs; ++i) {
        chains[i] = BeginChain(op, segment.first, segment.state[i][channel]);
      }
      int row = 0;
      for (; rows - row >= kRowsAhead; row += kRowsAhead) {
        ScanChannelRows<kInputs, kRowsAhead>(op, segment, channel, row, bias, chains);
      }
      if (rows - row >= 4) {
        ScanChannelRows<kInputs, 4>(op, segment, channel, row, bias, chains);
        row += 4;
      }
      for (; row < rows; ++row) {
        ScanChannelRows<kInputs, 1>(op, segment, channel, row, bias, chains);
      }
      RECOLLECT_UNROLL
      for (int i = 0; i < kInputs; ++i) segment.state[i][channel] = chains[i].state;
    });
  }
};

// Runs `count` rows of one step in one lane of the recurrence's warp.
RECOLLECT_HD void RunStep(ScanShared& shared, int lane, int turn, int count, int64_t chunk,
                          ScanChain& chain) {
  const ScanUnit* const gates = shared.gates[turn][lane % kTileChannels];
  ScanUnit* const values = shared.values[turn][lane];
  if (count < kStepRows || chain.left < kStepRows) {
    for (int unit = 0; unit * kUnitRows < count; ++unit) {
      RunRows(chain, chunk, gates[unit], values[unit], count - unit * kUnitRows);
    }
    return;
  }
  // Only loads, stores and one Fma a row; only the Fma waits for the row before.
  ScanUnit gates_ahead[kSharedAhead], values_ahead[kSharedAhead];
  RECOLLECT_UNROLL
  for (int u = 0; u < kSharedAhead; ++u) {
    gates_ahead[u] = gates[u];
    values_ahead[u] = values[u];
  }
  RECOLLECT_UNROLL
  for (int unit = 0; unit < kStepUnits; ++unit) {
    const ScanUnit g = gates_ahead[unit % kSharedAhead];
    ScanUnit y = values_ahead[unit % kSharedAhead];
    if (unit + kSharedAhead < kStepUnits) {
      gates_ahead[unit % kSharedAhead] = gates[unit + kSharedAhead];
      values_ahead[unit % kSharedAhead] = values[unit + kSharedAhead];
    }
    RECOLLECT_UNROLL
    for (int r = 0; r < kUnitRows; ++r) chain.state = y.v[r] = Fma(g.v[r], chain.state, y.v[r]);
    values[unit] = y;
  }
  chain.left -= kStepRows;
}

// By tile: kTileChannels channels of one segment, in steps of kStepRows rows. In each phase the
// first warp, a lane for each input and channel, takes one step through time; the other threads,
// each with the same four rows of one channel in every step, write out y of the step before,
// compute gates of the step after in its place, and issue loads further ahead.
template <int kInputs>
struct ScanTileBlocks : Blocks<kTileThreads, ScanShared> {
  template <typename Block>
  static RECOLLECT_HD void Run(Block& block, ScanShared& shared, const GatedScanOp& op,
                               BlockIndex at) {
    const int64_t index = at.y, tile = at.x;
    const GatedScanSizes& sizes = op.plan.sizes;
    const GatedScanSegment segment = op.segments[index];
    const int rows = static_cast<int>(segment.rows);
    if (rows <= 0) return;
    const int steps = (rows + kStepRows - 1) / kStepRows, whole_steps = rows / kStepRows;
    const auto channel_of = [&](int t) { return tile * kTileChannels + t % kTileChannels; };
    const auto unit_of = [](int t) { return (t - kChainThreads) / kTileChannels; };
    const auto has_chain = [&](int t) {
      return t < kInputs * kTileChannels && channel_of(t) < sizes.channels;
    };
    // Rows of thread t's unit in one step.
    const auto count_of = [&](int t, int step) {
      return step < whole_steps ? kUnitRows : rows - step * kStepRows - unit_of(t) * kUnitRows;
    };

    struct Ahead {
      ScanLoads<kInputs, kUnitRows> steps[kStepsAhead];
      float bias;
      int64_t load_at, store_at;  // where the next unit is loaded from and stored to
    };
    typename Block::template PerThread<ScanChain> chains(block);
    typename Block::template PerThread<Ahead> aheads(block);
    block.Run([&](int t) {
      if (t < kChainThreads) {
        if (!has_chain(t)) return;
        const float* const state = op.segments[index].state[t / kTileChannels];
        chains[t] = BeginChain(op, segment.first, state[channel_of(t)]);
        return;
      }
      if (channel_of(t) >= sizes.channels) return;
      Ahead& ahead = aheads[t];
      ahead.bias = BiasOf(op, channel_of(t));
      ahead.load_at = unit_of(t) * kUnitRows * op.stride + channel_of(t);
      ahead.store_at = unit_of(t) * kUnitRows * op.y_stride + channel_of(t);
      RECOLLECT_UNROLL
      for (int s = 0; s < kStepsAhead; ++s) {
        ahead.steps[s] = LoadInputs<kInputs, kUnitRows>(op, segment, ahead.load_at, count_of(t, s));
        ahead.load_at += kStepRows * op.stride;
      }
    });
    // Two phases beyond the last step: in them its rows go through the recurrence and are written
    // out.
    for (int begin = 0; begin < steps + 2; begin += kStepsAhead) {
      RECOLLECT_UNROLL
      for (int s = 0; s < kStepsAhead; ++s) {
        const int step = begin + s, turn = step % 2;
        block.Phase([&](int t) {
          if (t < kChainThreads) {
            const int left = rows - (step - 1) * kStepRows;
            if (step == 0 || left <= 0 || !has_chain(t)) return;
            RunStep(shared, t, 1 - turn, left < kStepRows ? left : kStepRows, sizes.chunk,
                    chains[t]);
            return;
          }
          if (channel_of(t) >= sizes.channels) return;
          Ahead& ahead = aheads[t];
          ScanUnit* const gates_place = &shared.gates[turn][t % kTileChannels][unit_of(t)];
          ScanUnit* const values_place = &shared.values[turn][t % kTileChannels][unit_of(t)];
          constexpr int kNextInput = kTileChannels * (kStepUnits + 1);
          if (step >= 2) {
            RECOLLECT_UNROLL
            for (int i = 0; i < kInputs; ++i) {
              StoreRows(segment.y[i] + ahead.store_at, op.y_stride, count_of(t, step - 2),
                        values_place[i * kNextInput]);
            }
            ahead.store_at += kStepRows * op.y_stride;
          }
          if (step >= steps) return;
          const ScanUnit gates = GatesOf(ahead.steps[s].z, ahead.bias);
          *gates_place = gates;
          RECOLLECT_UNROLL
          for (int i = 0; i < kInputs; ++i) {
            values_place[i * kNextInput] = WeighRows(gates, ahead.steps[s].x[i]);
          }
          ahead.steps[s] = LoadInputs<kInputs, kUnitRows>(op, segment, ahead.load_at,
                                                          count_of(t, step + kStepsAhead));
          ahead.load_at += kStepRows * op.stride;
        });
      }
    }
    block.Run([&](int t) {
      if (!has_chain(t)) return;
      op.segments[index].state[t / kTileChannels][channel_of(t)] = chains[t].state;
    });
  }
};

// x the tile of channels, so that blocks that read the same rows run together; y the segment.
template <typename Launcher>
absl::Status LaunchOp(const Launcher& launch, const GatedScanOp& op) {
  RETURN_IF_ERROR(CheckPlanned("gated scan", op.segment_count, "segments", op.plan.sizes.segments));
  RETURN_IF_ERROR(launch.CheckArrays(
      [&] { return CheckGatedScan(op.plan, ArrayOf(op.segments, op.segment_count)); }));
  const BlockGrid grid = {op.plan.blocks, op.segment_count};
  const bool one = op.plan.sizes.inputs == 1;
  if (op.plan.strategy == GatedScanPlan::Strategy::kByTile) {
    return one ? launch(ScanTileBlocks<1>{}, "gated scan, tiles", grid, op)
               : launch(ScanTileBlocks<2>{}, "gated scan, tiles", grid, op);
  }
  return one ? launch(ScanChannelBlocks<1>{}, "gated scan, channels", grid, op)
             : launch(ScanChannelBlocks<2>{}, "gated scan, channels", grid, op);
}

}  // namespace recollect::kernels::cuda
