#include <span>

#include "base/status.h"
#include "kernels/block_topk/block_bounds_kernel.h"
#include "kernels/block_topk/block_topk_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const BlockBoundsOp& op) {
  const BlockBoundsSizes& sizes = op.sizes;
  RETURN_IF_ERROR(CheckBlockBounds(sizes));
  RETURN_IF_ERROR(CheckKeyBlocks(sizes, std::span(op.blocks, static_cast<size_t>(sizes.blocks))));
  RunBlocks<NoShared>(
      order, cuda::BoundsBlocks(sizes), cuda::kBoundsThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::RunBounds(block, op, i); });
  return absl::OkStatus();
}

absl::Status OnHost(HostOrder order, const BlockTopKOp& op) {
  const BlockTopKPlan& plan = op.plan;
  const BlockTopKSizes& sizes = plan.sizes;
  if (sizes.rows == 0) return absl::OkStatus();
  const int64_t patterns = op.patterns_per_head == 0 ? 1 : sizes.heads;
  RETURN_IF_ERROR(CheckBlockTopK(plan, std::span(op.rows, static_cast<size_t>(sizes.rows)),
                                 std::span(op.patterns, static_cast<size_t>(patterns))));
  const int64_t heads = sizes.heads, tiles = plan.row_tiles;
  RunBlocks<cuda::BlockPartShared>(order, plan.parts * heads * tiles, cuda::kTopKThreads,
                                   [&](HostBlock& block, cuda::BlockPartShared& shared, int64_t i) {
                                     cuda::BlockPart(block, shared, op, i % tiles,
                                                     static_cast<int>(i / tiles % heads),
                                                     i / tiles / heads);
                                   });
  RunBlocks<cuda::BlockMergeShared>(
      order, sizes.rows * heads, cuda::kTopKThreads,
      [&](HostBlock& block, cuda::BlockMergeShared& shared, int64_t i) {
        cuda::BlockMerge(block, shared, op, i / heads, static_cast<int>(i % heads));
      });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
