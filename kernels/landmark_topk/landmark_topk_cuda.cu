#include "kernels/cuda/cuda_status.h"
#include "kernels/landmark_topk/landmark_topk_cuda.h"
#include "kernels/landmark_topk/landmark_topk_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::kTopKThreads;
using cuda::LandmarkArgs;

// blockIdx: x the tile of queries, so that blocks that read the same keys run together; y the part.
__global__ void __launch_bounds__(kTopKThreads) PartKernel(const LandmarkArgs args) {
  __shared__ cuda::LandmarkShared shared;
  CudaBlock block;
  cuda::LandmarkPart(block, shared, args, blockIdx.y, blockIdx.x);
}

// blockIdx.x: the query.
__global__ void __launch_bounds__(kTopKThreads) MergeKernel(const LandmarkArgs args) {
  __shared__ cuda::TopKList list;
  CudaBlock block;
  cuda::LandmarkMerge(block, list, args, blockIdx.x);
}

}  // namespace

absl::Status LandmarkTopKCuda(cudaStream_t stream, const LandmarkTopKPlan& plan,
                              const float* queries, const SegmentStart* segments, void* workspace,
                              const DeviceTopK& best) {
  if (plan.sizes.queries == 0 || plan.sizes.n == 0) return absl::OkStatus();
  const LandmarkArgs args = {
      plan, queries, segments, static_cast<uint64_t*>(workspace), best.candidates, best.scores};
  if (plan.parts > 0) {
    const dim3 grid(static_cast<unsigned>(plan.query_tiles), static_cast<unsigned>(plan.parts));
    PartKernel<<<grid, kTopKThreads, 0, stream>>>(args);
    if (absl::Status status = LaunchStatus("landmark top-k, parts"); !status.ok()) return status;
  }
  MergeKernel<<<static_cast<unsigned>(plan.sizes.queries), kTopKThreads, 0, stream>>>(args);
  return LaunchStatus("landmark top-k, merge");
}

}  // namespace recollect::kernels
