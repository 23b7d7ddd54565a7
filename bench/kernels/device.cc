#include "bench/kernels/device.h"

#include <chrono>
#include <cmath>
#include <fstream>

#include "kernels/cuda/cuda_status.h"
#include "kernels/gemm/cublaslt.h"

namespace recollect::bench {
namespace {

using kernels::CublasStatus;
using kernels::CudaStatus;

constexpr int64_t kCopyBytes = int64_t{2} << 30;
constexpr int64_t kProductSide = 8192;
constexpr size_t kWorkspaceBytes = size_t{64} << 20;

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

absl::StatusOr<Event> MakeEvent() {
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&event), "event"));
  return Event(event);
}

absl::StatusOr<double> CopyBytes(cudaStream_t stream) {
  ASSIGN_OR_RETURN(const DeviceArray<char> from, DeviceArray<char>::Create(kCopyBytes, "copy"));
  ASSIGN_OR_RETURN(const DeviceArray<char> to, DeviceArray<char>::Create(kCopyBytes, "copy"));
  RETURN_IF_ERROR(CudaStatus(cudaMemset(from.get(), 1, kCopyBytes), "copy"));
  ASSIGN_OR_RETURN(const DeviceTiming timing, TimeOnDevice(stream, [&] {
                     return CudaStatus(cudaMemcpyAsync(to.get(), from.get(), kCopyBytes,
                                                       cudaMemcpyDeviceToDevice, stream),
                                       "copy");
                   }));
  return 2.0 * kCopyBytes / (timing.median_ms * 1e-3);
}

// Not by GemmCuda: what keeps a row's bits must not lower the ceiling.
absl::StatusOr<double> ProductFlops(cudaStream_t stream) {
  constexpr int64_t n = kProductSide;
  ASSIGN_OR_RETURN(const kernels::CublasLt lt, kernels::CublasLt::Create());
  const Pattern<Bf16> numbers(1);
  ASSIGN_OR_RETURN(const DeviceArray<Bf16> a, Upload(numbers, n * n, "product"));
  ASSIGN_OR_RETURN(const DeviceArray<Bf16> b, Upload(numbers, n * n, "product"));
  ASSIGN_OR_RETURN(const DeviceArray<Bf16> d, DeviceArray<Bf16>::Create(n * n, "product"));
  ASSIGN_OR_RETURN(const DeviceArray<char> workspace,
                   DeviceArray<char>::Create(kWorkspaceBytes, "workspace"));
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t layout{};
  cublasLtMatmulPreferenceOpaque_t preference{};
  cublasLtMatmulHeuristicResult_t best;
  const int32_t transposed = CUBLAS_OP_T;
  const uint64_t workspace_bytes = kWorkspaceBytes;
  int found = 0;
  for (const cublasStatus_t error :
       {cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                       sizeof(transposed)),
        cublasLtMatrixLayoutInit(&layout, CUDA_R_16BF, n, n, n),
        cublasLtMatmulPreferenceInit(&preference),
        cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof(workspace_bytes)),
        cublasLtMatmulAlgoGetHeuristic(lt.handle(), &operation, &layout, &layout, &layout, &layout,
                                       &preference, 1, &best, &found)}) {
    RETURN_IF_ERROR(CublasStatus(error, "large product"));
  }
  if (found == 0) return CublasStatus(CUBLAS_STATUS_NOT_SUPPORTED, "large product");
  const float one = 1, zero = 0;
  ASSIGN_OR_RETURN(const DeviceTiming timing, TimeOnDevice(stream, [&] {
                     return CublasStatus(
                         cublasLtMatmul(lt.handle(), &operation, &one, a.get(), &layout, b.get(),
                                        &layout, &zero, d.get(), &layout, d.get(), &layout,
                                        &best.algo, workspace.get(), kWorkspaceBytes, stream),
                         "large product");
                   }));
  return 2.0 * n * n * n / (timing.median_ms * 1e-3);
}

// The median of what `once` returns, in ms.
absl::StatusOr<DeviceTiming> Sampled(const std::function<absl::StatusOr<double>()>& once) {
  constexpr double kLongMs = 2000, kBudgetMs = 1000;
  ASSIGN_OR_RETURN(const double first_ms, once());
  if (first_ms > kLongMs) return DeviceTiming{first_ms, 0, 1};
  std::vector<double> times;
  const int samples = std::clamp(static_cast<int>(kBudgetMs / std::max(first_ms, 1e-3)), 1, 100);
  for (int i = 0; i < samples; ++i) {
    ASSIGN_OR_RETURN(const double ms, once());
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  return DeviceTiming{median, (times[times.size() * 3 / 4] - times[times.size() / 4]) / median,
                      samples};
}

}  // namespace

absl::StatusOr<DeviceTiming> TimeOnDevice(cudaStream_t stream, const Launch& launch) {
  ASSIGN_OR_RETURN(const Event begin, MakeEvent());
  ASSIGN_OR_RETURN(const Event end, MakeEvent());
  return Sampled([&]() -> absl::StatusOr<double> {
    RETURN_IF_ERROR(Synchronize());
    RETURN_IF_ERROR(CudaStatus(cudaEventRecord(begin.get(), stream), "event"));
    RETURN_IF_ERROR(launch());
    RETURN_IF_ERROR(CudaStatus(cudaEventRecord(end.get(), stream), "event"));
    RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(end.get()), "run"));
    float ms = 0;
    RETURN_IF_ERROR(CudaStatus(cudaEventElapsedTime(&ms, begin.get(), end.get()), "event"));
    return ms;
  });
}

absl::StatusOr<DeviceTiming> TimeByClock(const Launch& before, const Launch& run) {
  return Sampled([&]() -> absl::StatusOr<double> {
    RETURN_IF_ERROR(before());
    RETURN_IF_ERROR(Synchronize());
    const auto begin = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(run());
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  });
}

absl::StatusOr<DeviceCeilings> MeasureDeviceCeilings(cudaStream_t stream) {
  DeviceCeilings ceilings;
  ASSIGN_OR_RETURN(ceilings.copy_bytes, CopyBytes(stream));
  ASSIGN_OR_RETURN(ceilings.bf16_flops, ProductFlops(stream));
  return ceilings;
}

std::string DeviceName() {
  cudaDeviceProp properties;
  return cudaGetDeviceProperties(&properties, 0) == cudaSuccess ? properties.name : "unknown";
}

std::string DriverName() {
  int version = 0;
  cudaDriverGetVersion(&version);
  std::string name = absl::StrCat("CUDA ", version / 1000, ".", version % 1000 / 10);
  std::string module;
  if (std::getline(std::ifstream("/proc/driver/nvidia/version"), module)) {
    absl::StrAppend(&name, ", ", module);
  }
  return name;
}

int Multiprocessors() {
  int count = 0;
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
  return count;
}

absl::Status Synchronize() { return CudaStatus(cudaDeviceSynchronize(), "run"); }

}  // namespace recollect::bench
