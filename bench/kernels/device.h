// Helpers for benchmarks on a CUDA device: numbers in its memory, times between events, and this
// device's own ceilings to compare the times with. For one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "bench/kernels/numbers.h"
#include "kernels/cuda/cuda_memory.h"

namespace recollect::bench {

// Queues one call on the stream that it is timed on.
using Launch = std::function<absl::Status()>;

struct DeviceTiming {
  double median_ms = 0;
  double spread = 0;  // (third quartile - first) / median
  int samples = 0;
};

// Times one call between two events per sample, on a stream that had nothing else to do, so that a
// short call's launch counts. Caches are as the call before left them. Takes about a second, with 1
// to 100 samples. The first call, which loads code, counts only if it alone takes seconds.
absl::StatusOr<DeviceTiming> TimeOnDevice(cudaStream_t stream, const Launch& launch);

// Times by the wall clock, for work in which the host has a part: from the call of `run`, on an
// idle device, until it returns. `before` runs first each time and does not count.
absl::StatusOr<DeviceTiming> TimeByClock(const Launch& before, const Launch& run);

struct DeviceCeilings {
  double copy_bytes = 0;  // byte/s read and written by a copy within device memory
  double bf16_flops = 0;  // flop/s of a large product by cuBLASLt, any algorithm
};
absl::StatusOr<DeviceCeilings> MeasureDeviceCeilings(cudaStream_t stream);

// Return the name of the device ("NVIDIA H200"), and what this process can know of its driver.
std::string DeviceName();
std::string DriverName();
int Multiprocessors();

// Waits for all work of the device, including the copies of Upload.
absl::Status Synchronize();

// An array of `count` elements in device memory, uninitialised.
template <typename T>
class DeviceArray {
 public:
  static absl::StatusOr<DeviceArray> Create(int64_t count, const char* what) {
    DeviceArray array;
    absl::StatusOr<kernels::DeviceMemory> memory =
        kernels::AllocateDevice(count * static_cast<int64_t>(sizeof(T)));
    if (!memory.ok()) return Annotate(memory.status(), what);
    array.memory_ = *std::move(memory);
    return array;
  }
  T* get() const { return static_cast<T*>(memory_.get()); }

 private:
  kernels::DeviceMemory memory_;
};

// Copies the first `count` numbers of the pattern to device memory; the copy may still be running.
template <typename T>
absl::StatusOr<DeviceArray<T>> Upload(const Pattern<T>& from, int64_t count, const char* what) {
  ASSIGN_OR_RETURN(DeviceArray<T> memory, DeviceArray<T>::Create(count, what));
  const auto length = static_cast<int64_t>(from.period().size());
  int64_t filled = std::min(count, length);
  RETURN_IF_ERROR(kernels::CudaStatus(
      cudaMemcpy(memory.get(), from.period().data(), filled * sizeof(T), cudaMemcpyHostToDevice),
      what));
  while (filled < count) {
    const int64_t more = std::min(filled, count - filled);  // begins at a multiple of the period
    RETURN_IF_ERROR(kernels::CudaStatus(
        cudaMemcpy(memory.get() + filled, memory.get(), more * sizeof(T), cudaMemcpyDeviceToDevice),
        what));
    filled += more;
  }
  return memory;
}

template <typename T>
absl::StatusOr<DeviceArray<T>> UploadAll(const std::vector<T>& from, const char* what) {
  ASSIGN_OR_RETURN(DeviceArray<T> memory,
                   DeviceArray<T>::Create(static_cast<int64_t>(from.size()), what));
  RETURN_IF_ERROR(kernels::CudaStatus(
      cudaMemcpy(memory.get(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
      what));
  return memory;
}

// Copies `count` rows of `width` elements, `stride` elements apart, to the host.
template <typename T>
absl::StatusOr<std::vector<T>> Download(const T* from, int64_t count, int64_t width = 1,
                                        int64_t stride = 1) {
  std::vector<T> to(count * width);
  RETURN_IF_ERROR(
      kernels::CudaStatus(cudaMemcpy2D(to.data(), width * sizeof(T), from, stride * sizeof(T),
                                       width * sizeof(T), count, cudaMemcpyDeviceToHost),
                          "results"));
  return to;
}

}  // namespace recollect::bench
