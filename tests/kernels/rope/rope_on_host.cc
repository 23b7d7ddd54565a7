#include "kernels/rope/rope_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const RopeOp& op) {
  const RowSizes& sizes = op.sizes;
  absl::Status status = CheckRows("RoPE", sizes, 2);
  if (!status.ok() || sizes.rows == 0 || sizes.width == 0) return status;
  RunBlocks<NoShared>(order, cuda::RopeBlocks(sizes), cuda::kRopeThreads,
                      [&](HostBlock& block, NoShared&, int64_t i) {
                        if (op.pairs == RopePairs::kHalves) {
                          cuda::RunRope<RopePairs::kHalves>(block, op, i);
                        } else {
                          cuda::RunRope<RopePairs::kInterleaved>(block, op, i);
                        }
                      });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
