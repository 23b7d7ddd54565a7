#include "kernels/cuda/cuda_status.h"
#include "kernels/landmark_topk/landmark_ahead_kernel.h"
#include "kernels/landmark_topk/landmark_topk_cuda.h"
#include "kernels/landmark_topk/landmark_topk_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::kTopKThreads;

// blockIdx: x the tile of queries, so that blocks that read the same keys run together; y the part.
__global__ void __launch_bounds__(kTopKThreads) PartKernel(const LandmarkTopKOp op) {
  __shared__ cuda::LandmarkShared shared;
  CudaBlock block;
  cuda::LandmarkPart(block, shared, op, blockIdx.y, blockIdx.x);
}

// blockIdx: x the query, y the part. Registers for two blocks hold what is on its way.
template <int kPieces>
__global__ void __launch_bounds__(kTopKThreads, 2) AheadKernel(const LandmarkTopKOp op) {
  __shared__ cuda::AheadShared<kPieces> shared;
  CudaBlock block;
  cuda::LandmarkPartAhead(block, shared, op, blockIdx.y, blockIdx.x);
}

// blockIdx.x: the query.
__global__ void __launch_bounds__(kTopKThreads) MergeKernel(const LandmarkTopKOp op) {
  __shared__ cuda::TopKList list;
  CudaBlock block;
  cuda::LandmarkMerge(block, list, op, blockIdx.x);
}

auto* PartKernelOf(const LandmarkTopKPlan& plan) {
  if (plan.strategy == LandmarkTopKPlan::Strategy::kTiles) return &PartKernel;
  return plan.sizes.width == 64    ? &AheadKernel<1>
         : plan.sizes.width == 128 ? &AheadKernel<2>
                                   : &AheadKernel<4>;
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  if (plan.sizes.queries == 0 || plan.sizes.n == 0) return absl::OkStatus();
  if (plan.parts > 0) {
    const dim3 grid(static_cast<unsigned>(plan.query_tiles), static_cast<unsigned>(plan.parts));
    PartKernelOf(plan)<<<grid, kTopKThreads, 0, stream>>>(op);
    if (absl::Status status = LaunchStatus("landmark top-k, parts"); !status.ok()) return status;
  }
  MergeKernel<<<static_cast<unsigned>(plan.sizes.queries), kTopKThreads, 0, stream>>>(op);
  return LaunchStatus("landmark top-k, merge");
}

}  // namespace recollect::kernels
