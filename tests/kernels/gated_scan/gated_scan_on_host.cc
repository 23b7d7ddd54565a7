#include <span>

#include "base/status.h"
#include "kernels/gated_scan/gated_scan_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {
namespace {

template <int kInputs>
void RunScanOnHost(HostOrder order, const GatedScanOp& op, int64_t segments) {
  const int64_t blocks = op.plan.blocks;
  if (op.plan.strategy == GatedScanPlan::Strategy::kByTile) {
    RunBlocks<cuda::ScanShared>(order, segments * blocks, cuda::kTileThreads,
                                [&](HostBlock& block, cuda::ScanShared& shared, int64_t i) {
                                  cuda::ScanByTile<kInputs>(block, shared, op, i / blocks,
                                                            i % blocks);
                                });
  } else {
    RunBlocks<NoShared>(order, segments * blocks, cuda::kChannelThreads,
                        [&](HostBlock& block, NoShared&, int64_t i) {
                          cuda::ScanByChannel<kInputs>(block, op, i / blocks, i % blocks);
                        });
  }
}

}  // namespace

absl::Status OnHost(HostOrder order, const GatedScanOp& op) {
  const GatedScanPlan& plan = op.plan;
  RETURN_IF_ERROR(
      CheckGatedScan(plan, std::span(op.segments, static_cast<size_t>(op.segment_count))));
  plan.sizes.inputs == 1 ? RunScanOnHost<1>(order, op, op.segment_count)
                         : RunScanOnHost<2>(order, op, op.segment_count);
  return absl::OkStatus();
}

}  // namespace recollect::kernels
