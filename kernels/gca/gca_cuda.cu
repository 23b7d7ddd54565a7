#include "kernels/cuda/cuda_status.h"
#include "kernels/gca/gca_cuda.h"
#include "kernels/gca/gca_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::GcaArgs;

// blockIdx: x the group, so that what runs together reads the same chunks' heads; y the head; z the
// chunk, by chunk. With 4 as the least blocks of a multiprocessor the compiler spills no registers.
__global__ void __launch_bounds__(cuda::kGcaThreads, 4) RowsKernel(const GcaArgs args) {
  __shared__ cuda::GcaRowsShared shared;
  CudaBlock block;
  cuda::GcaRows(block, shared, args, blockIdx.x, static_cast<int>(blockIdx.y),
                static_cast<int>(blockIdx.z));
}

template <int kDimSteps>
__global__ void __launch_bounds__(cuda::kGcaThreads) TilesKernel(const GcaArgs args) {
  __shared__ cuda::AttentionTile<kDimSteps> tile;
  static_assert(sizeof(tile) <= cuda::kPlainSharedBytes);
  CudaBlock block;
  cuda::GcaTiles(block, tile, args, blockIdx.x, static_cast<int>(blockIdx.y),
                 static_cast<int>(blockIdx.z));
}

// blockIdx.x: the group.
__global__ void __launch_bounds__(cuda::kGcaAddThreads) AddKernel(const GcaArgs args) {
  CudaBlock block;
  cuda::GcaAddChunks(block, args, blockIdx.x);
}

auto* KernelOf(const GcaPlan& plan) {
  if (plan.q_dtype == DType::kFloat32) return &RowsKernel;
  return plan.shape.head_dim <= 64 ? &TilesKernel<4> : &TilesKernel<8>;
}

}  // namespace

absl::Status GcaCuda(cudaStream_t stream, const GcaPlan& plan, const GcaDeviceArrays& arrays) {
  if (arrays.group_count > plan.sizes.groups) {
    return absl::InvalidArgumentError(
        absl::StrCat("GCA of ", arrays.group_count, " groups, planned for ", plan.sizes.groups));
  }
  if (arrays.group_count == 0) return absl::OkStatus();
  const cuda::GcaArgs args = cuda::ArgsOf(plan, arrays);
  const bool by_chunk = plan.strategy == GcaPlan::Strategy::kByChunk;
  const auto groups = static_cast<unsigned>(arrays.group_count);
  const dim3 grid(groups, static_cast<unsigned>(plan.shape.heads),
                  by_chunk ? static_cast<unsigned>(plan.sizes.max_group_chunks) : 1);
  if (grid.z > 0) {
    KernelOf(plan)<<<grid, cuda::kGcaThreads, 0, stream>>>(args);
    if (absl::Status status = LaunchStatus("GCA"); !status.ok()) return status;
  }
  if (!by_chunk) return absl::OkStatus();
  AddKernel<<<groups, cuda::kGcaAddThreads, 0, stream>>>(args);
  return LaunchStatus("GCA, sum over chunks");
}

}  // namespace recollect::kernels
