// GatedScan (gated_scan.h) on a CUDA device.
#ifndef RECOLLECT_KERNELS_GATED_SCAN_CUDA_H_
#define RECOLLECT_KERNELS_GATED_SCAN_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace recollect::kernels {

// All pointers are device memory and are used until what is queued on `stream` before the caller's
// next synchronisation has run. z, x: [rows, channels], rows `stride` floats apart. bias[channels]
// or null. state[channels] is read and updated. y[rows, channels], rows `y_stride` apart; y may be
// x with y_stride == stride. Rows are taken in order, so any cut gives the same bits. Statuses of
// kernels/cuda_status.h.
absl::Status GatedScanCuda(cudaStream_t stream, const float* z, const float* bias, const float* x,
                           int64_t stride, int64_t rows, int64_t channels, float* state, float* y,
                           int64_t y_stride);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_GATED_SCAN_CUDA_H_
