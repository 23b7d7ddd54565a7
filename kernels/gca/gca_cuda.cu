#include "kernels/cuda/cuda_status.h"
#include "kernels/gca/gca_ahead_kernel.h"
#include "kernels/gca/gca_cuda.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;

// blockIdx: x the group, so that what runs together reads the same chunks' heads; y the head; z the
// chunk, by chunk. With 4 as the least blocks of a multiprocessor the compiler spills no registers.
__global__ void __launch_bounds__(cuda::kGcaThreads, 4) RowsKernel(const GcaOp op) {
  __shared__ cuda::GcaRowsShared shared;
  CudaBlock block;
  cuda::GcaRows(block, shared, op, blockIdx.x, static_cast<int>(blockIdx.y),
                static_cast<int>(blockIdx.z));
}

template <int kDimSteps>
__global__ void __launch_bounds__(cuda::kGcaThreads) TilesKernel(const GcaOp op) {
  __shared__ cuda::AttentionTile<kDimSteps> tile;
  static_assert(sizeof(tile) <= cuda::kPlainSharedBytes);
  CudaBlock block;
  cuda::GcaTiles(block, tile, op, blockIdx.x, static_cast<int>(blockIdx.y),
                 static_cast<int>(blockIdx.z));
}

// By group, so blockIdx.z is 0. Four blocks a multiprocessor: 16 warps, and half of what it can
// load is on its way.
__global__ void __launch_bounds__(cuda::kGcaThreads, 4) TilesAheadKernel(const GcaOp op) {
  __shared__ cuda::GcaAheadShared shared;
  static_assert(sizeof(shared) <= cuda::kPlainSharedBytes);
  CudaBlock block;
  cuda::GcaTilesAhead(block, shared, op, blockIdx.x, static_cast<int>(blockIdx.y));
}

// blockIdx.x: the group.
__global__ void __launch_bounds__(cuda::kGcaAddThreads) AddKernel(const GcaOp op) {
  CudaBlock block;
  cuda::GcaAddChunks(block, op, blockIdx.x);
}

auto* KernelOf(const GcaPlan& plan) {
  if (plan.q_dtype == DType::kFloat32) return &RowsKernel;
  if (plan.shape.head_dim > cuda::kAheadDim) return &TilesKernel<8>;
  return plan.strategy == GcaPlan::Strategy::kByGroup ? &TilesAheadKernel : &TilesKernel<4>;
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const GcaOp& op) {
  const GcaPlan& plan = op.plan;
  if (op.group_count > plan.sizes.groups) {
    return absl::InvalidArgumentError(
        absl::StrCat("GCA of ", op.group_count, " groups, planned for ", plan.sizes.groups));
  }
  if (op.group_count == 0) return absl::OkStatus();
  const bool by_chunk = plan.strategy == GcaPlan::Strategy::kByChunk;
  const auto groups = static_cast<unsigned>(op.group_count);
  const dim3 grid(groups, static_cast<unsigned>(plan.shape.heads),
                  by_chunk ? static_cast<unsigned>(plan.sizes.max_group_chunks) : 1);
  if (grid.z > 0) {
    KernelOf(plan)<<<grid, cuda::kGcaThreads, 0, stream>>>(op);
    if (absl::Status status = LaunchStatus("GCA"); !status.ok()) return status;
  }
  if (!by_chunk) return absl::OkStatus();
  AddKernel<<<groups, cuda::kGcaAddThreads, 0, stream>>>(op);
  return LaunchStatus("GCA, sum over chunks");
}

}  // namespace recollect::kernels
