#include "kernels/cuda/cuda_status.h"
#include "kernels/linear_attention/linear_attention_cuda.h"
#include "kernels/linear_attention/linear_attention_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;

static_assert(sizeof(cuda::LinearShared) <= cuda::kPlainSharedBytes);

// blockIdx: x the tile of columns, so that blocks that read the same features run together; y the
// key-value head; z the segment.
__global__ void __launch_bounds__(cuda::kMaxLinearThreads) TileKernel(const LinearAttentionOp op) {
  __shared__ cuda::LinearShared shared;
  CudaBlock block;
  cuda::LinearTile(block, shared, op, blockIdx.z, static_cast<int>(blockIdx.y),
                   static_cast<int>(blockIdx.x));
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const LinearAttentionOp& op) {
  const LinearAttentionPlan& plan = op.plan;
  if (op.segment_count > plan.sizes.segments) {
    return absl::InvalidArgumentError(absl::StrCat("linear attention of ", op.segment_count,
                                                   " segments, planned for ", plan.sizes.segments));
  }
  if (op.segment_count == 0) return absl::OkStatus();
  const dim3 grid(static_cast<unsigned>(plan.tiles),
                  static_cast<unsigned>(plan.sizes.shape.kv_heads),
                  static_cast<unsigned>(op.segment_count));
  TileKernel<<<grid, plan.threads, 0, stream>>>(op);
  return LaunchStatus("linear attention");
}

}  // namespace recollect::kernels
