#include "kernels/cuda/cuda_status.h"
#include "kernels/range_attention/range_attention_cuda.h"
#include "kernels/range_attention/range_attention_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::kRangeThreads;
using cuda::RangeArgs;

// blockIdx: x the row, y the head, z the split.
__global__ void __launch_bounds__(kRangeThreads) SplitKernel(const RangeArgs args) {
  __shared__ cuda::RangeShared shared;
  CudaBlock block;
  cuda::RangeBySplit(block, shared, args, blockIdx.x, static_cast<int>(blockIdx.y), blockIdx.z);
}

// blockIdx: x the row, y the head.
__global__ void __launch_bounds__(kRangeThreads) MergeKernel(const RangeArgs args) {
  CudaBlock block;
  cuda::RangeMerge(block, args, blockIdx.x, static_cast<int>(blockIdx.y));
}

// blockIdx: x the tile of rows, y the head.
__global__ void __launch_bounds__(kRangeThreads) RowKernel(const RangeArgs args) {
  __shared__ cuda::RangeShared shared;
  CudaBlock block;
  cuda::RangeByRow(block, shared, args, blockIdx.x, static_cast<int>(blockIdx.y));
}

}  // namespace

absl::Status RangeAttentionCuda(cudaStream_t stream, const RangeAttentionPlan& plan,
                                const RangeDeviceArrays& arrays) {
  const RangeAttentionSizes& sizes = plan.sizes;
  if (sizes.rows == 0) return absl::OkStatus();
  const RangeArgs args = cuda::ArgsOf(plan, arrays);
  const auto heads = static_cast<unsigned>(sizes.heads);
  if (plan.strategy == RangeAttentionPlan::Strategy::kByRow) {
    const int64_t tiles = (sizes.rows + plan.block_rows - 1) / plan.block_rows;
    RowKernel<<<dim3(static_cast<unsigned>(tiles), heads), kRangeThreads, 0, stream>>>(args);
    return LaunchStatus("range attention, rows");
  }
  const auto rows = static_cast<unsigned>(sizes.rows);
  if (plan.splits > 0) {
    const dim3 grid(rows, heads, static_cast<unsigned>(plan.splits));
    SplitKernel<<<grid, kRangeThreads, 0, stream>>>(args);
    if (absl::Status status = LaunchStatus("range attention, splits"); !status.ok()) return status;
  }
  MergeKernel<<<dim3(rows, heads), kRangeThreads, 0, stream>>>(args);
  return LaunchStatus("range attention, merge");
}

}  // namespace recollect::kernels
