// Plans how a gated scan is divided on a device (kernels/gated_scan/gated_scan_cuda.h). Host code
// without CUDA, so that every machine tests it.
#ifndef RECOLLECT_KERNELS_GATED_SCAN_GATED_SCAN_PLAN_H_
#define RECOLLECT_KERNELS_GATED_SCAN_GATED_SCAN_PLAN_H_

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
// is what the segments point to.
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

#endif  // RECOLLECT_KERNELS_GATED_SCAN_GATED_SCAN_PLAN_H_
