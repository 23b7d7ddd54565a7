// Launches of operations (kernels/block/launch.h) on a GPU. NAME_cuda.cu has them in one line each:
//   RECOLLECT_LAUNCH(RopeOp)
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>

#include "absl/status/statusor.h"
#include "kernels/block/launch.h"
#include "kernels/cuda/cuda_status.h"

namespace recollect::kernels::cuda {

template <typename Kind>
constexpr bool kAsksForShared = sizeof(typename Kind::Shared) > kPlainSharedBytes;

template <typename Kind, typename Op>
__device__ __forceinline__ void RunBlock(const Op& op) {
  using Shared = typename Kind::Shared;
  CudaBlock block;
  const BlockIndex at = {blockIdx.x, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
  if constexpr (std::is_empty_v<Shared>) {
    Shared none;
    Kind::Run(block, none, op, at);
  } else if constexpr (kAsksForShared<Kind>) {
    extern __shared__ __align__(16) char memory[];
    Kind::Run(block, *reinterpret_cast<Shared*>(memory), op, at);
  } else {
    __shared__ Shared shared;
    Kind::Run(block, shared, op, at);
  }
}

template <typename Kind, typename Op>
__global__ void __launch_bounds__(Kind::kThreads) Kernel(const Op op) {
  RunBlock<Kind>(op);
}
template <typename Kind, typename Op>
__global__ void __launch_bounds__(Kind::kThreads, Kind::kLeast) KernelOfFew(const Op op) {
  RunBlock<Kind>(op);
}

// Queues on a stream of the current device, and returns before the work is done.
class CudaLauncher {
 public:
  explicit CudaLauncher(cudaStream_t stream) : stream_(stream) {}

  template <typename Kind, typename Op>
  absl::Status operator()(Kind, absl::string_view what, const BlockGrid& grid, const Op& op) const {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return absl::OkStatus();
    const dim3 count(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                     static_cast<unsigned>(grid.z));
    const int threads = grid.threads > 0 ? grid.threads : Kind::kThreads;
    constexpr size_t kBytes = kAsksForShared<Kind> ? sizeof(typename Kind::Shared) : 0;
    KernelOf<Kind, Op>()<<<count, threads, kBytes, stream_>>>(op);
    return LaunchStatus(what);
  }

  template <typename Check>
  absl::Status CheckArrays(const Check&) const {
    return absl::OkStatus();
  }

  // Also asks for the shared memory, where blocks need more than all have.
  template <typename Kind, typename Op>
  absl::StatusOr<bool> Fits(Kind, const Op&) const {
    constexpr int kBytes = sizeof(typename Kind::Shared);
    const auto done = [](cudaError_t error) { return CudaStatus(error, "shared memory"); };
    int device = 0, most = 0;
    RETURN_IF_ERROR(done(cudaGetDevice(&device)));
    RETURN_IF_ERROR(
        done(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device)));
    if (kBytes > most) return false;
    RETURN_IF_ERROR(done(cudaFuncSetAttribute(
        KernelOf<Kind, Op>(), cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes)));
    return true;
  }

 private:
  template <typename Kind, typename Op>
  static auto KernelOf() {
    if constexpr (Kind::kLeast > 0)
      return &KernelOfFew<Kind, Op>;
    else
      return &Kernel<Kind, Op>;
  }

  const cudaStream_t stream_;
};

}  // namespace recollect::kernels::cuda

#define RECOLLECT_LAUNCH(Op)                               \
  namespace recollect::kernels {                           \
  absl::Status Launch(cudaStream_t stream, const Op& op) { \
    return cuda::LaunchOp(cuda::CudaLauncher(stream), op); \
  }                                                        \
  }
