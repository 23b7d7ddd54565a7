#include "kernels/cuda_status.h"
#include "kernels/gca_block.h"
#include "kernels/gca_cuda.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;
using cuda::GcaArgs;

// blockIdx: x the group, y the head, z the chunk.
__global__ void __launch_bounds__(cuda::kGcaChunkThreads) ChunkKernel(const GcaArgs args) {
  __shared__ cuda::GcaChunkShared shared;
  CudaBlock block;
  cuda::GcaChunk(block, shared, args, blockIdx.x, static_cast<int>(blockIdx.y),
                 static_cast<int>(blockIdx.z));
}

// blockIdx.x: the group.
__global__ void __launch_bounds__(cuda::kGcaAddThreads) AddKernel(const GcaArgs args) {
  CudaBlock block;
  cuda::GcaAddChunks(block, args, blockIdx.x);
}

// blockIdx: x the group, y the head.
template <int kDimSteps>
__global__ void __launch_bounds__(cuda::kGcaTileThreads) TileKernel(const GcaArgs args) {
  extern __shared__ float shared[];
  CudaBlock block;
  cuda::GcaTile<kDimSteps>(block, shared, args, blockIdx.x, static_cast<int>(blockIdx.y));
}

template <int kDimSteps>
absl::Status LaunchTiles(cudaStream_t stream, const GcaArgs& args, dim3 grid) {
  const int64_t bytes = args.plan.shared_bytes;
  if (bytes > cuda::kPlainSharedBytes) {
    const cudaError_t error =
        cudaFuncSetAttribute(TileKernel<kDimSteps>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes));
    if (error != cudaSuccess) return CudaStatus(error, "shared memory of GCA tiles");
  }
  TileKernel<kDimSteps><<<grid, cuda::kGcaTileThreads, static_cast<size_t>(bytes), stream>>>(args);
  return LaunchStatus("GCA, tiles");
}

}  // namespace

absl::StatusOr<int64_t> BlockSharedBytes() {
  int device = 0, bytes = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (error != cudaSuccess) return CudaStatus(error, "shared memory of a thread block");
  return bytes;
}

absl::Status GcaCuda(cudaStream_t stream, const GcaPlan& plan, const GcaDeviceArrays& arrays) {
  if (arrays.group_count > plan.sizes.groups) {
    return absl::InvalidArgumentError(
        absl::StrCat("GCA of ", arrays.group_count, " groups, planned for ", plan.sizes.groups));
  }
  if (arrays.group_count == 0) return absl::OkStatus();
  GcaArgs args;
  args.plan = plan;
  args.q = arrays.q;
  args.groups = arrays.groups;
  args.chunks = arrays.chunks;
  args.weights = arrays.weights;
  args.out = arrays.out;
  args.workspace = static_cast<float*>(arrays.workspace);
  const auto groups = static_cast<unsigned>(arrays.group_count);
  const auto heads = static_cast<unsigned>(plan.shape.heads);
  if (plan.way == GcaPlan::Way::kByTile) {
    return plan.shape.head_dim <= 64 ? LaunchTiles<4>(stream, args, dim3(groups, heads))
                                     : LaunchTiles<8>(stream, args, dim3(groups, heads));
  }
  if (plan.sizes.max_group_chunks > 0) {
    const dim3 grid(groups, heads, static_cast<unsigned>(plan.sizes.max_group_chunks));
    ChunkKernel<<<grid, cuda::kGcaChunkThreads, 0, stream>>>(args);
    if (absl::Status status = LaunchStatus("GCA, chunks"); !status.ok()) return status;
  }
  AddKernel<<<groups, cuda::kGcaAddThreads, 0, stream>>>(args);
  return LaunchStatus("GCA, sum over chunks");
}

}  // namespace recollect::kernels
