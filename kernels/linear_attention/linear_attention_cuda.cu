#include "kernels/cuda/cuda_status.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/linear_attention_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::LinearArgs;

static_assert(sizeof(cuda::LinearShared) <= cuda::kPlainSharedBytes);

// blockIdx: x the tile of columns, so that blocks that read the same features run together; y the
// key-value head; z the segment.
__global__ void __launch_bounds__(cuda::kMaxLinearThreads) TileKernel(const LinearArgs args) {
  __shared__ cuda::LinearShared shared;
  CudaBlock block;
  cuda::LinearTile(block, shared, args, blockIdx.z, static_cast<int>(blockIdx.y),
                   static_cast<int>(blockIdx.x));
}

}  // namespace

absl::Status LinearAttentionCuda(cudaStream_t stream, const LinearAttentionPlan& plan,
                                 const LinearAttentionDeviceArrays& arrays) {
  if (arrays.segment_count > plan.sizes.segments) {
    return absl::InvalidArgumentError(absl::StrCat("linear attention of ", arrays.segment_count,
                                                   " segments, planned for ", plan.sizes.segments));
  }
  if (arrays.segment_count == 0) return absl::OkStatus();
  const LinearArgs args = cuda::ArgsOf(plan, arrays);
  const dim3 grid(static_cast<unsigned>(plan.tiles),
                  static_cast<unsigned>(plan.sizes.shape.kv_heads),
                  static_cast<unsigned>(arrays.segment_count));
  TileKernel<<<grid, plan.threads, 0, stream>>>(args);
  return LaunchStatus("linear attention");
}

}  // namespace recollect::kernels
