// The operations of kernels/device/operation.h on a GPU, queued on a stream of the user's choice.
// For cuda_device.cc, and for benchmarks, which time their own stream.
#ifndef RECOLLECT_KERNELS_CUDA_CUDA_OPERATIONS_H_
#define RECOLLECT_KERNELS_CUDA_CUDA_OPERATIONS_H_

#include <cuda_runtime_api.h>

#include <type_traits>
#include <variant>

#include "kernels/block_topk/block_bounds_cuda.h"
#include "kernels/block_topk/block_topk_cuda.h"
#include "kernels/copy/copy_cuda.h"
#include "kernels/device/operation.h"
#include "kernels/elementwise/elementwise_cuda.h"
#include "kernels/gated_scan/gated_scan_cuda.h"
#include "kernels/gca/gca_cuda.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/landmark_topk/landmark_topk_cuda.h"
#include "kernels/linear_attention/features_cuda.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/pointer_mix/pointer_mix_cuda.h"
#include "kernels/range_attention/range_attention_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/sample/sample_cuda.h"
#include "kernels/tile_attention/tile_attention_cuda.h"

namespace recollect::kernels {

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

#endif  // RECOLLECT_KERNELS_CUDA_CUDA_OPERATIONS_H_
