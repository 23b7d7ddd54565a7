// What a user of the CUDA operations owns: memory on a device and pinned on the host, streams,
// events and graphs; and the choice of a device. Move-only; a Create that fails leaves no error
// behind for a later launch to report. Statuses of kernels/cuda_status.h.
#ifndef RECOLLECT_KERNELS_CUDA_MEMORY_H_
#define RECOLLECT_KERNELS_CUDA_MEMORY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda_status.h"

namespace recollect::kernels {

// Of device `index` of the machine. INVALID_ARGUMENT: there are fewer (names both numbers).
inline absl::StatusOr<cudaDeviceProp> CudaProperties(int index) {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess) {
    (void)cudaGetLastError();
    return CudaStatus(error, "CUDA devices");
  }
  if (index < 0 || index >= devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("CUDA device ", index, ", this machine has ", devices));
  }
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, index); error != cudaSuccess) {
    (void)cudaGetLastError();
    return CudaStatus(error, absl::StrCat("properties of CUDA device ", index));
  }
  return properties;
}

// Makes device `index` current in this thread, from now on: to go back to one that was current by
// default would begin a context on it, with memory, or fail. An error that somebody left behind in
// this thread goes, so that no launch reports it.
inline absl::Status UseCudaDevice(int index) {
  (void)cudaGetLastError();
  const cudaError_t error = cudaSetDevice(index);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return CudaStatus(error, absl::StrCat("device ", index));
}

struct CudaFree {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
struct CudaFreeHost {
  void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};

// At a multiple of 256 bytes; freed on whatever device is current.
using DeviceMemory = std::unique_ptr<void, CudaFree>;
using PinnedMemory = std::unique_ptr<void, CudaFreeHost>;

inline absl::StatusOr<DeviceMemory> AllocateDevice(int64_t bytes) {
  void* memory = nullptr;
  if (const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(bytes));
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return CudaStatus(error, absl::StrCat(bytes, " bytes of device memory"));
  }
  return DeviceMemory(memory);
}

inline absl::StatusOr<PinnedMemory> AllocatePinned(int64_t bytes) {
  void* memory = nullptr;
  if (const cudaError_t error = cudaMallocHost(&memory, static_cast<size_t>(bytes));
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return CudaStatus(error, absl::StrCat(bytes, " bytes of pinned memory"));
  }
  return PinnedMemory(memory);
}

struct CudaDestroyStream {
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
using CudaStream = std::unique_ptr<CUstream_st, CudaDestroyStream>;

// One that does not wait for the default stream.
inline absl::StatusOr<CudaStream> CreateStream() {
  cudaStream_t stream = nullptr;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return CudaStatus(error, "a stream");
  }
  return CudaStream(stream);
}

struct CudaDestroyEvent {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
using CudaEvent = std::unique_ptr<CUevent_st, CudaDestroyEvent>;

// One to wait for, not to measure time with.
inline absl::StatusOr<CudaEvent> CreateEvent() {
  cudaEvent_t event = nullptr;
  if (const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      error != cudaSuccess) {
    (void)cudaGetLastError();
    return CudaStatus(error, "an event");
  }
  return CudaEvent(event);
}

struct CudaDestroyGraph {
  void operator()(cudaGraphExec_t graph) const { (void)cudaGraphExecDestroy(graph); }
};
// One that runs goes when it is done.
using CudaGraphExec = std::unique_ptr<CUgraphExec_st, CudaDestroyGraph>;

// What `queue()`, which returns a status, queues on `stream`, to be launched as one; nothing of it
// runs. What other threads do meanwhile is no part of it.
template <typename Queue>
absl::StatusOr<CudaGraphExec> CaptureGraph(cudaStream_t stream, Queue queue) {
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return CudaStatus(error, "capture");
  const absl::Status queued = queue();
  cudaGraph_t graph = nullptr;
  error = cudaStreamEndCapture(stream, &graph);  // also after an error
  absl::Status status = queued.ok() ? CudaStatus(error, "capture") : queued;
  cudaGraphExec_t executable = nullptr;
  if (status.ok()) status = CudaStatus(cudaGraphInstantiate(&executable, graph, 0), "graph");
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  if (!status.ok()) {
    (void)cudaGetLastError();
    return status;
  }
  return CudaGraphExec(executable);
}

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_CUDA_MEMORY_H_
