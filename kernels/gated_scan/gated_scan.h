// Gated linear recurrence over time, per channel (RAT+, eq. of the gated keys and values;
// design 2.2):
//   s_t = g_t s_{t-1} + (1 - g_t) x_t,   g_t = sigmoid(z_t + bias)
// State in fp32, time in order, so a scan cut anywhere and continued from `state` gives the same
// bits.
#pragma once

#include <cstdint>

#include "kernels/cpu/dispatch.h"

namespace recollect::kernels {

// x, z: [rows, channels], rows `stride` floats apart (both). bias[channels] or null.
// state[channels] is read and updated. y[rows, channels], rows `y_stride` apart; y may be x with
// y_stride == stride.
RECOLLECT_CPU_OP(GatedScan, void(OpContext& ctx, const float* z, const float* bias, const float* x,
                                 int64_t stride, int64_t rows, int64_t channels, float* state,
                                 float* y, int64_t y_stride));

// The same with s_{t-1} = 0 at every position t that is a multiple of `chunk` (RAT, the recurrence
// inside a chunk). Row 0 has position `first`. REQUIRES: chunk >= 1.
void ChunkedGatedScan(OpContext& ctx, int64_t first, int64_t chunk, const float* z,
                      const float* bias, const float* x, int64_t stride, int64_t rows,
                      int64_t channels, float* state, float* y, int64_t y_stride);

}  // namespace recollect::kernels
