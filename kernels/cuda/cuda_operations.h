// The operations of kernels/device/operation.h on a GPU, queued on a stream of the user's choice.
// For cuda_device.cc, and for benchmarks, which time their own stream.
#pragma once

#include <cuda_runtime_api.h>

#include <type_traits>
#include <variant>

#include "absl/status/status.h"
#include "kernels/device/operation.h"
#include "kernels/gemm/gemm_cuda.h"

namespace recollect::kernels {

// NAME_cuda.cu defines it, and it returns before the work is done. One launch or several, none
// where there is nothing to do. Statuses of the plan and of kernels/cuda/cuda_status.h. Products
// run by CudaGemms instead.
#define RECOLLECT_LAUNCH(Op) absl::Status Launch(cudaStream_t stream, const Op& op);
RECOLLECT_OPERATIONS(RECOLLECT_LAUNCH)
#undef RECOLLECT_LAUNCH

// Queues an operation on a stream of the current device. Statuses of its Launch, or of the product.
inline absl::Status Queue(cudaStream_t stream, CudaGemms& gemms, const Operation& operation) {
  const auto launch = [&](const auto& op) -> absl::Status {
    if constexpr (std::is_same_v<decltype(op), const GemmOp&>) {
      return gemms.Run(stream, op);
    } else {
      return Launch(stream, op);
    }
  };
  return std::visit(launch, operation);
}

}  // namespace recollect::kernels
