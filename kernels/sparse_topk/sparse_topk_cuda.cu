#include "kernels/cuda/cuda_status.h"
#include "kernels/sparse_topk/sparse_topk_cuda.h"
#include "kernels/sparse_topk/sparse_topk_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::kSparseThreads;

static_assert(sizeof(cuda::SparseShared) <= cuda::kPlainSharedBytes);

// blockIdx.x: the slice, and within it the query, so that blocks that read the same lists run
// together.
__global__ void __launch_bounds__(kSparseThreads) SliceKernel(const SparseTopKOp op) {
  __shared__ cuda::SparseShared shared;
  CudaBlock block;
  cuda::SearchSlice(block, shared, op, blockIdx.x);
}

// blockIdx.x: the query.
__global__ void __launch_bounds__(kSparseThreads) SparseMergeKernel(const SparseTopKOp op) {
  __shared__ cuda::TopKList list;
  CudaBlock block;
  cuda::SparseMerge(block, list, op, blockIdx.x);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const SparseTopKOp& op) {
  const SparseTopKSizes& sizes = op.plan.sizes;
  if (sizes.queries == 0 || sizes.n == 0) return absl::OkStatus();
  if (sizes.slices > 0) {
    SliceKernel<<<static_cast<unsigned>(sizes.queries * sizes.slices), kSparseThreads, 0, stream>>>(
        op);
    if (absl::Status status = LaunchStatus("sparse top-k, slices"); !status.ok()) return status;
  }
  SparseMergeKernel<<<static_cast<unsigned>(sizes.queries), kSparseThreads, 0, stream>>>(op);
  return LaunchStatus("sparse top-k, merge");
}

}  // namespace recollect::kernels
