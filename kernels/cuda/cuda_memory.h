// Owners for users of the CUDA operations: device memory, pinned host memory, streams, events and
// graphs; and the selection of a device. Move-only; a Create that fails leaves no error behind for
// a later launch to report. Statuses of kernels/cuda/cuda_status.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_status.h"

namespace recollect::kernels {

// Properties of the machine's device `index`. INVALID_ARGUMENT: there are fewer devices (names both
// numbers).
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

// Makes device `index` current in this thread. It stays so: restoring a device that was current
// only by default would create a context on it, which takes memory, or fail. Clears any earlier
// CUDA error of this thread, so that no launch reports it.
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

// Begins at a multiple of 256 bytes; may be freed whichever device is current.
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

// A stream that does not synchronise with the default stream.
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

// An event to wait for; it takes no time stamps.
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
// A graph destroyed while it runs is released when it is done.
using CudaGraphExec = std::unique_ptr<CUgraphExec_st, CudaDestroyGraph>;

// Captures the work that `queue()`, which returns a status, queues on `stream`, as one graph,
// without running it. Work of other threads is not captured.
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
