#include "kernels/cuda/cuda_status.h"
#include "kernels/gated_scan/gated_scan_cuda.h"
#include "kernels/gated_scan/gated_scan_kernel.h"

namespace recollect::kernels {
namespace {

using cuda::CudaBlock;

static_assert(sizeof(cuda::ScanShared) <= cuda::kPlainSharedBytes);

// blockIdx: x the tile of channels, so that blocks that read the same rows run together; y the
// segment.
template <int kInputs>
__global__ void __launch_bounds__(cuda::kChannelThreads) ChannelKernel(const GatedScanOp op) {
  CudaBlock block;
  cuda::ScanByChannel<kInputs>(block, op, blockIdx.y, blockIdx.x);
}

template <int kInputs>
__global__ void __launch_bounds__(cuda::kTileThreads) TileKernel(const GatedScanOp op) {
  __shared__ cuda::ScanShared shared;
  CudaBlock block;
  cuda::ScanByTile<kInputs>(block, shared, op, blockIdx.y, blockIdx.x);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const GatedScanOp& op) {
  const GatedScanPlan& plan = op.plan;
  if (op.segment_count > plan.sizes.segments) {
    return absl::InvalidArgumentError(absl::StrCat("gated scan of ", op.segment_count,
                                                   " segments, planned for ", plan.sizes.segments));
  }
  if (op.segment_count == 0) return absl::OkStatus();
  const dim3 grid(static_cast<unsigned>(plan.blocks), static_cast<unsigned>(op.segment_count));
  const bool by_tile = plan.strategy == GatedScanPlan::Strategy::kByTile,
             one = plan.sizes.inputs == 1;
  const int threads = by_tile ? cuda::kTileThreads : cuda::kChannelThreads;
  const auto kernel =
      by_tile ? (one ? TileKernel<1> : TileKernel<2>) : (one ? ChannelKernel<1> : ChannelKernel<2>);
  kernel<<<grid, threads, 0, stream>>>(op);
  return LaunchStatus(by_tile ? "gated scan, tiles" : "gated scan, channels");
}

}  // namespace recollect::kernels
