#include "base/status.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/landmark_topk/landmark_decide_kernel.h"
#include "kernels/landmark_topk/landmark_topk_cuda.h"

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

// blockIdx: x the tile of 64 queries, y the part.
template <int kSteps>
__global__ void __launch_bounds__(kTopKThreads, 1) FilterKernel(const LandmarkTopKOp op) {
  extern __shared__ __align__(16) char memory[];
  CudaBlock block;
  cuda::LandmarkFilter(block, *reinterpret_cast<cuda::FilterShared<kSteps>*>(memory), op,
                       blockIdx.y, blockIdx.x);
}

// blockIdx.x: the query.
__global__ void __launch_bounds__(kTopKThreads) DecideKernel(const LandmarkTopKOp op) {
  __shared__ cuda::DecideShared shared;
  CudaBlock block;
  cuda::LandmarkDecide(block, shared, op, blockIdx.x);
}

// As PartKernel and MergeKernel, for queries in doubt alone: mostly there is none.
__global__ void __launch_bounds__(kTopKThreads) DoubtPartKernel(const LandmarkTopKOp op) {
  __shared__ cuda::LandmarkShared shared;
  if (!cuda::TileInDoubt(op, blockIdx.x)) return;
  CudaBlock block;
  cuda::LandmarkPart(block, shared, op, blockIdx.y, blockIdx.x);
}
__global__ void __launch_bounds__(kTopKThreads) DoubtMergeKernel(const LandmarkTopKOp op) {
  __shared__ cuda::TopKList list;
  if (cuda::DoubtsOf(op)[blockIdx.x] == 0) return;
  CudaBlock block;
  cuda::LandmarkMerge(block, list, op, blockIdx.x);
}

using Kernel = void (*)(LandmarkTopKOp);

Kernel PartKernelOf(const LandmarkTopKPlan& plan) {
  if (plan.strategy == LandmarkTopKPlan::Strategy::kTiles) return &PartKernel;
  return plan.sizes.width == 64    ? &AheadKernel<1>
         : plan.sizes.width == 128 ? &AheadKernel<2>
                                   : &AheadKernel<4>;
}

dim3 Grid(int64_t tiles, int64_t parts) {
  return {static_cast<unsigned>(tiles), static_cast<unsigned>(parts)};
}

absl::Status LaunchParts(cudaStream_t stream, const LandmarkTopKOp& op, Kernel part, Kernel merge) {
  const LandmarkTopKPlan& plan = op.plan;
  if (plan.parts > 0) {
    part<<<Grid(plan.query_tiles, plan.parts), kTopKThreads, 0, stream>>>(op);
    RETURN_IF_ERROR(LaunchStatus("landmark top-k, parts"));
  }
  merge<<<static_cast<unsigned>(plan.sizes.queries), kTopKThreads, 0, stream>>>(op);
  return LaunchStatus("landmark top-k, merge");
}

// Returns false where the current device's blocks cannot have so much shared memory.
absl::StatusOr<bool> AllowShared(Kernel kernel, int bytes) {
  int device = 0, most = 0;
  RETURN_IF_ERROR(CudaStatus(cudaGetDevice(&device), "landmark top-k"));
  RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
                 "landmark top-k"));
  if (bytes > most) return false;
  RETURN_IF_ERROR(
      CudaStatus(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                 "landmark top-k"));
  return true;
}

template <int kSteps>
absl::Status LaunchFilter(cudaStream_t stream, const LandmarkTopKOp& op) {
  constexpr int kBytes = sizeof(cuda::FilterShared<kSteps>);
  const LandmarkTopKPlan& plan = op.plan;
  ASSIGN_OR_RETURN(const bool fits, AllowShared(&FilterKernel<kSteps>, kBytes));
  if (!fits) return LaunchParts(stream, op, &PartKernel, &MergeKernel);
  if (plan.filter_parts > 0) {
    FilterKernel<kSteps>
        <<<Grid(plan.filter_tiles, plan.filter_parts), kTopKThreads, kBytes, stream>>>(op);
    RETURN_IF_ERROR(LaunchStatus("landmark top-k, filter"));
  }
  DecideKernel<<<static_cast<unsigned>(plan.sizes.queries), kTopKThreads, 0, stream>>>(op);
  RETURN_IF_ERROR(LaunchStatus("landmark top-k, decision"));
  return LaunchParts(stream, op, &DoubtPartKernel, &DoubtMergeKernel);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  if (plan.sizes.queries == 0 || plan.sizes.n == 0) return absl::OkStatus();
  if (plan.strategy != LandmarkTopKPlan::Strategy::kFilter) {
    return LaunchParts(stream, op, PartKernelOf(plan), &MergeKernel);
  }
  if (plan.sizes.width == 64) return LaunchFilter<4>(stream, op);
  if (plan.sizes.width == 128) return LaunchFilter<8>(stream, op);
  return LaunchFilter<16>(stream, op);
}

}  // namespace recollect::kernels
