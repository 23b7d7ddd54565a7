#include "kernels/cuda/cuda_status.h"
#include "kernels/range_attention/range_attention_cuda.h"
#include "kernels/range_attention/range_attention_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::kRangeThreads;

// blockIdx: x the row, y the head, z the split.
__global__ void __launch_bounds__(kRangeThreads) SplitKernel(const RangeAttentionOp op) {
  __shared__ cuda::RangeShared shared;
  CudaBlock block;
  cuda::RangeBySplit(block, shared, op, blockIdx.x, static_cast<int>(blockIdx.y), blockIdx.z);
}

// blockIdx: x the row, y the head.
__global__ void __launch_bounds__(kRangeThreads) MergeKernel(const RangeAttentionOp op) {
  CudaBlock block;
  cuda::RangeMerge(block, op, blockIdx.x, static_cast<int>(blockIdx.y));
}

// blockIdx: x the tile of rows, y the head.
__global__ void __launch_bounds__(kRangeThreads) RowKernel(const RangeAttentionOp op) {
  __shared__ cuda::RangeShared shared;
  CudaBlock block;
  cuda::RangeByRow(block, shared, op, blockIdx.x, static_cast<int>(blockIdx.y));
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const RangeAttentionOp& op) {
  const RangeAttentionPlan& plan = op.plan;
  const RangeAttentionSizes& sizes = plan.sizes;
  if (sizes.rows == 0) return absl::OkStatus();
  const auto heads = static_cast<unsigned>(sizes.heads);
  if (plan.strategy == RangeAttentionPlan::Strategy::kByRow) {
    const int64_t tiles = (sizes.rows + plan.block_rows - 1) / plan.block_rows;
    RowKernel<<<dim3(static_cast<unsigned>(tiles), heads), kRangeThreads, 0, stream>>>(op);
    return LaunchStatus("range attention, rows");
  }
  const auto rows = static_cast<unsigned>(sizes.rows);
  if (plan.splits > 0) {
    const dim3 grid(rows, heads, static_cast<unsigned>(plan.splits));
    SplitKernel<<<grid, kRangeThreads, 0, stream>>>(op);
    if (absl::Status status = LaunchStatus("range attention, splits"); !status.ok()) return status;
  }
  MergeKernel<<<dim3(rows, heads), kRangeThreads, 0, stream>>>(op);
  return LaunchStatus("range attention, merge");
}

}  // namespace recollect::kernels
