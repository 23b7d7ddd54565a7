#include "kernels/cuda/cuda_status.h"
#include "kernels/tile_attention/tile_attention_cuda.h"
#include "kernels/tile_attention/tile_attention_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::AttentionTile;
using cuda::CudaBlock;
using cuda::kMaxTileThreads;

// The kernels see these without their functions.
static_assert(sizeof(RangeSet) == kMaxRanges * sizeof(RangeSet::Range));
static_assert(sizeof(Bf16KvParts) == kMaxRanges * sizeof(Bf16KvSpan));

// blockIdx: x the tile, y the key-value head, z the split.
template <int kDimSteps>
__global__ void __launch_bounds__(kMaxTileThreads) SplitKernel(const TileAttentionOp op) {
  __shared__ AttentionTile<kDimSteps> tile;
  static_assert(sizeof(tile) <= cuda::kPlainSharedBytes);
  CudaBlock block;
  cuda::TileBySplit(block, tile, op, blockIdx.x, static_cast<int>(blockIdx.y), blockIdx.z);
}

// blockIdx: x the tile, y the head.
__global__ void __launch_bounds__(cuda::kMergeTileThreads) MergeKernel(const TileAttentionOp op) {
  CudaBlock block;
  cuda::TileMerge(block, op, blockIdx.x, static_cast<int>(blockIdx.y));
}

// blockIdx: x the tile, y the key-value head. The last tiles of a prefill have the most entries,
// and go first.
template <int kDimSteps>
__global__ void __launch_bounds__(kMaxTileThreads) TileKernel(const TileAttentionOp op) {
  __shared__ AttentionTile<kDimSteps> tile;
  CudaBlock block;
  cuda::TileByTile(block, tile, op, static_cast<int64_t>(gridDim.x) - 1 - blockIdx.x,
                   static_cast<int>(blockIdx.y));
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const TileAttentionOp& op) {
  const TileAttentionPlan& plan = op.plan;
  const TileAttentionSizes& sizes = plan.sizes;
  if (sizes.tiles == 0) return absl::OkStatus();
  const auto tiles = static_cast<unsigned>(sizes.tiles);
  const auto kv_heads = static_cast<unsigned>(sizes.kv_heads);
  const int threads = plan.warps * cuda::kMatrixWarp;
  const bool narrow = sizes.head_dim <= 64;
  if (plan.strategy == TileAttentionPlan::Strategy::kByTile) {
    (narrow ? TileKernel<4> : TileKernel<8>)<<<dim3(tiles, kv_heads), threads, 0, stream>>>(op);
    return LaunchStatus("tile attention, tiles");
  }
  if (sizes.max_splits > 0) {
    const dim3 grid(tiles, kv_heads, static_cast<unsigned>(sizes.max_splits));
    (narrow ? SplitKernel<4> : SplitKernel<8>)<<<grid, threads, 0, stream>>>(op);
    if (absl::Status status = LaunchStatus("tile attention, splits"); !status.ok()) return status;
  }
  const dim3 grid(tiles, static_cast<unsigned>(sizes.heads));
  MergeKernel<<<grid, cuda::kMergeTileThreads, 0, stream>>>(op);
  return LaunchStatus("tile attention, merge");
}

}  // namespace recollect::kernels
