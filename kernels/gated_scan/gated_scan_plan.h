// Gated scan (gated_scan.h) on a device, for segments of many sequences: the rows of a decode step,
// or the slices of prefills.
//   s_t = g_t s_{t-1} + (1 - g_t) x_t,   g_t = sigmoid(z_t + bias),   y_t = s_t
// in fp32. One or two inputs x share the gates: keys and values.
//   plan = PlanGatedScan(sizes, multiprocessors);
//   CheckGatedScan(plan, segments);                // host copies, before the upload
//   device.Run(GatedScanOp{plan, segments, count, bias, stride, y_stride});
//
// The state is y_{t-1}, [channels] fp32, as on the CPU: a fresh one is zeros, and a document's is
// kept and restored as it is. Time is never cut: both ways of the plan go through the rows in
// order, with one Fma a row, so a row has the same bits in any cut of a sequence into calls, in any
// batch, with a second input or without, from a prefill and from a decode step. The errors are
// those of the plain recurrence. What runs in parallel is all the rest: sequences, channels, and
// within a thread block the loads, the gates and (1 - g) x of later rows.
//
// This suffices for one long sequence, too. It moves the fewest bytes possible, 12 a row and
// channel with one input, 20 with two. The serial part is one Fma a row, 4 cycles: 262 144 rows
// take 0.6 ms at 1.8 GHz, while moving them with 2048 channels takes 1.3 ms at 4.8 TB/s. Between
// the two lie the instructions that a block of 16 channels issues, 8 cycles a row by its compiled
// code: they are the bound when there are fewer than 16 channels for each multiprocessor. A scan
// over pieces of time would read z and x twice, or wait for neighbouring blocks, and would carry a
// product of gates besides the state.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace recollect::kernels {

inline constexpr int kMaxScanInputs = 2;  // keys and values

// Consecutive rows of one sequence. Arrays are fp32 in device memory, at any multiple of 4 bytes;
// the call has the distances between rows. With one input, the second input's arrays are not read.
// Outputs overlap nothing else.
struct GatedScanSegment {
  const float* z = nullptr;             // [rows, channels]
  const float* x[kMaxScanInputs] = {};  // [rows, channels] each
  float* y[kMaxScanInputs] = {};        // each like its x; may be x if strides are equal
  float* state[kMaxScanInputs] = {};    // [channels] each, read and updated, not shared
  int64_t rows = 0;                     // 0: nothing happens
  int64_t first = 0;                    // position of row 0; used only with a chunk
};

// Sizes for which a graph is captured; it may be replayed with other segments within them.
struct GatedScanSizes {
  int64_t segments = 0;
  int64_t max_rows = 0;  // of one segment
  int64_t channels = 0;
  int inputs = 1;     // recurrences with the same gates: 1, or 2
  int64_t chunk = 0;  // the state is 0 before each multiple of it (ChunkedGatedScan); 0: never
  friend bool operator==(const GatedScanSizes&, const GatedScanSizes&) = default;
};

struct GatedScanPlan {
  // By channel: a thread takes its channel through all rows; for the few rows of a decode step, and
  // for enough sequences to fill the device. By tile: a thread block takes a few channels, computes
  // gates ahead in all warps but one, and runs the recurrence in that warp; for few long sequences.
  enum class Strategy { kByChannel, kByTile };
  GatedScanSizes sizes;
  Strategy strategy = Strategy::kByChannel;
  int64_t blocks = 0;  // thread blocks of one segment
  friend bool operator==(const GatedScanPlan&, const GatedScanPlan&) = default;
};

// Chooses the strategy for a device with that many multiprocessors; both give the same bits.
// INVALID_ARGUMENT when a size is negative, there are no channels, inputs is not 1 or 2, or a size
// is beyond what a launch can count (65 535 segments; 2^30 rows, channels, or positions in a
// chunk).
absl::StatusOr<GatedScanPlan> PlanGatedScan(const GatedScanSizes& sizes, int multiprocessors);

// Plans with a given strategy, for tests and benchmarks.
absl::StatusOr<GatedScanPlan> PlanGatedScan(const GatedScanSizes& sizes,
                                            GatedScanPlan::Strategy strategy);

// Checks host copies before they are uploaded, since the device checks nothing: as many segments
// and rows as planned, positions from 0 on, no array missing where there are rows. INVALID_ARGUMENT
// names the segment.
absl::Status CheckGatedScan(const GatedScanPlan& plan, std::span<const GatedScanSegment> segments);

// The arguments of one operation. Pointers are device memory, borrowed until the work is done; so
// is what the segments point to. Launches depend on plan and segment_count alone, so a captured
// graph can be replayed with other segments.
struct GatedScanOp {
  GatedScanPlan plan;
  const GatedScanSegment* segments = nullptr;  // [segment_count]
  int64_t segment_count = 0;                   // at most plan.sizes.segments
  const float* bias = nullptr;                 // [channels] fp32, or null
  int64_t stride = 0;    // floats between rows of z, and of each x; at least channels
  int64_t y_stride = 0;  // of each y
  friend bool operator==(const GatedScanOp&, const GatedScanOp&) = default;
};

}  // namespace recollect::kernels
