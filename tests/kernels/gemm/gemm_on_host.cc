// Computes on the host what kernels/gemm/gemm_cuda.h computes: products of the same formats with
// sums in fp32. Sums are in an order of their own, the same for all rows, so that a row has the
// same bits in any batch; they are not the bits of a device.
#include <cstring>
#include <vector>

#include "base/numeric/bf16.h"
#include "base/status.h"
#include "kernels/gemm/gemm_cuda_plan.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

inline std::vector<float> FloatsOf(const void* numbers, DType dtype, int64_t count) {
  std::vector<float> floats(static_cast<size_t>(count));
  if (dtype == DType::kFloat32) {
    std::memcpy(floats.data(), numbers, floats.size() * sizeof(float));
  } else {
    for (int64_t i = 0; i < count; ++i) floats[i] = static_cast<const Bf16*>(numbers)[i].ToFloat();
  }
  return floats;
}

// Adds product i to sum i % 8; then adds these sums in order.
inline float HostDot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kSums = 8;
  float sums[kSums] = {};
  const int64_t whole = count - count % kSums;
  for (int64_t i = 0; i < whole; i += kSums) {
    for (int64_t s = 0; s < kSums; ++s) sums[s] += a[i + s] * b[i + s];
  }
  for (int64_t i = whole; i < count; ++i) sums[i - whole] += a[i] * b[i];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

// Does what GemmCuda::Run does, with the statuses of CheckGemmShape and CheckGemmAddresses.
absl::Status OnHost(HostOrder, const GemmOp& op) {
  const auto& [shape, weights, x, rows, y] = op;
  RETURN_IF_ERROR(CheckGemmShape(shape));
  RETURN_IF_ERROR(CheckGemmAddresses(shape, weights, x, y));
  if (rows == 0) return absl::OkStatus();
  const std::vector<float> w = FloatsOf(weights, shape.in, shape.n * shape.k);
  const std::vector<float> in = FloatsOf(x, shape.in, rows * shape.k);
  std::vector<float> out(static_cast<size_t>(rows * shape.n));
  if (shape.add) out = FloatsOf(y, shape.out, rows * shape.n);
  for (int64_t i = 0; i < rows * shape.n; ++i) {
    out[i] += HostDot(&in[i / shape.n * shape.k], &w[i % shape.n * shape.k], shape.k);
  }
  for (int64_t i = 0; i < rows * shape.n; ++i) {
    if (shape.out == DType::kBf16) {
      static_cast<Bf16*>(y)[i] = Bf16::FromFloat(out[i]);
    } else {
      static_cast<float*>(y)[i] = out[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
