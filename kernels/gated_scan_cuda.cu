#include "absl/strings/str_cat.h"
#include "kernels/cuda_status.h"
#include "kernels/gated_scan_cuda.h"

namespace recollect::kernels {
namespace {

// One warp a block: channels are few (a thousand in a layer), and the more blocks, the more
// multiprocessors load at once.
constexpr int kThreads = 32;
// Rows whose loads are in flight while the recurrence, which waits for itself, goes on.
constexpr int kRowsAhead = 16;

// One thread a channel; neighbouring threads read neighbouring channels of a row.
__global__ void __launch_bounds__(kThreads)
    GatedScanKernel(const float* z, const float* bias, const float* x, int64_t stride, int64_t rows,
                    int64_t channels, float* state, float* y, int64_t y_stride) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= channels) return;
  const float b = bias == nullptr ? 0.0f : bias[c];
  float s = state[c];
  for (int64_t t = 0; t < rows; t += kRowsAhead) {
    float gates[kRowsAhead], inputs[kRowsAhead];
#pragma unroll
    for (int u = 0; u < kRowsAhead; ++u) {
      if (t + u >= rows) break;
      gates[u] = z[(t + u) * stride + c];
      inputs[u] = x[(t + u) * stride + c];
    }
#pragma unroll
    for (int u = 0; u < kRowsAhead; ++u) {
      if (t + u >= rows) break;
      const float g = 1.0f / (1.0f + expf(-(gates[u] + b)));
      // Written as fused and unfused on purpose: the same rounding whatever the compiler unrolls.
      s = __fmaf_rn(g, s, __fmul_rn(1.0f - g, inputs[u]));
      y[(t + u) * y_stride + c] = s;
    }
  }
  state[c] = s;
}

}  // namespace

absl::Status GatedScanCuda(cudaStream_t stream, const float* z, const float* bias, const float* x,
                           int64_t stride, int64_t rows, int64_t channels, float* state, float* y,
                           int64_t y_stride) {
  if (rows == 0 || channels == 0) return absl::OkStatus();
  const int64_t blocks = (channels + kThreads - 1) / kThreads;
  GatedScanKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      z, bias, x, stride, rows, channels, state, y, y_stride);
  return LaunchStatus(absl::StrCat("gated scan of ", rows, " x ", channels));
}

}  // namespace recollect::kernels
