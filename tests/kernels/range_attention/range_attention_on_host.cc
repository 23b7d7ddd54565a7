#include <span>

#include "base/status.h"
#include "kernels/range_attention/range_attention_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const RangeAttentionOp& op) {
  const RangeAttentionPlan& plan = op.plan;
  const RangeAttentionSizes& sizes = plan.sizes;
  if (op.lists.counts == nullptr) {
    RETURN_IF_ERROR(CheckRanges(plan, std::span(op.sets, static_cast<size_t>(sizes.rows))));
  }
  const int64_t heads = sizes.heads, pairs = sizes.rows * heads;
  if (plan.strategy == RangeAttentionPlan::Strategy::kByRow) {
    const int64_t tiles = (sizes.rows + plan.block_rows - 1) / plan.block_rows;
    RunBlocks<cuda::RangeShared>(order, tiles * heads, cuda::kRangeThreads,
                                 [&](HostBlock& block, cuda::RangeShared& shared, int64_t i) {
                                   cuda::RangeByRow(block, shared, op, i / heads,
                                                    static_cast<int>(i % heads));
                                 });
    return absl::OkStatus();
  }
  RunBlocks<cuda::RangeShared>(order, pairs * plan.splits, cuda::kRangeThreads,
                               [&](HostBlock& block, cuda::RangeShared& shared, int64_t i) {
                                 cuda::RangeBySplit(block, shared, op, i % pairs / heads,
                                                    static_cast<int>(i % heads), i / pairs);
                               });
  RunBlocks<NoShared>(order, pairs, cuda::kRangeThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        cuda::RangeMerge(block, op, i / heads, static_cast<int>(i % heads));
                      });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
