// Gated scan (gated_scan.h) on a CUDA device, for segments of many sequences: the rows of a decode
// step, or the slices of prefills.
//   s_t = g_t s_{t-1} + (1 - g_t) x_t,   g_t = sigmoid(z_t + bias),   y_t = s_t
// in fp32. One or two inputs x share the gates: keys and values.
//   plan = PlanGatedScan(sizes, multiprocessors);  // gated_scan_plan.h
//   CheckGatedScan(plan, segments);                // host copies, before the upload
//   Launch(stream, GatedScanOp{plan, segments, count, bias, stride, y_stride});
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
#ifndef RECOLLECT_KERNELS_GATED_SCAN_GATED_SCAN_CUDA_H_
#define RECOLLECT_KERNELS_GATED_SCAN_GATED_SCAN_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/gated_scan/gated_scan_plan.h"

namespace recollect::kernels {

// Returns before the work is done. One launch, none without segments. No workspace. Launch sizes
// depend on plan and segment_count alone, so a captured graph can be replayed with other segments.
// Statuses of kernels/cuda/cuda_status.h.
absl::Status Launch(cudaStream_t stream, const GatedScanOp& op);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_GATED_SCAN_GATED_SCAN_CUDA_H_
