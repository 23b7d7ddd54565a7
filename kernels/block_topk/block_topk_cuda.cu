#include "kernels/block_topk/block_topk_cuda.h"
#include "kernels/block_topk/block_topk_kernel.h"
#include "kernels/cuda/cuda_status.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::kTopKThreads;

static_assert(sizeof(cuda::BlockPartShared) <= cuda::kPlainSharedBytes);

// blockIdx: x the tile of rows, y the head, z the part.
__global__ void __launch_bounds__(kTopKThreads) PartKernel(const BlockTopKOp op) {
  __shared__ cuda::BlockPartShared shared;
  CudaBlock block;
  cuda::BlockPart(block, shared, op, blockIdx.x, static_cast<int>(blockIdx.y), blockIdx.z);
}

// blockIdx: x the row, y the head.
__global__ void __launch_bounds__(kTopKThreads) MergeKernel(const BlockTopKOp op) {
  __shared__ cuda::BlockMergeShared shared;
  CudaBlock block;
  cuda::BlockMerge(block, shared, op, blockIdx.x, static_cast<int>(blockIdx.y));
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const BlockTopKOp& op) {
  const BlockTopKPlan& plan = op.plan;
  if (plan.sizes.rows == 0) return absl::OkStatus();
  const auto heads = static_cast<unsigned>(plan.sizes.heads);
  if (plan.parts > 0) {
    const dim3 grid(static_cast<unsigned>(plan.row_tiles), heads,
                    static_cast<unsigned>(plan.parts));
    PartKernel<<<grid, kTopKThreads, 0, stream>>>(op);
    if (absl::Status status = LaunchStatus("block top-k, parts"); !status.ok()) return status;
  }
  const dim3 grid(static_cast<unsigned>(plan.sizes.rows), heads);
  MergeKernel<<<grid, kTopKThreads, 0, stream>>>(op);
  return LaunchStatus("block top-k, lists");
}

}  // namespace recollect::kernels
