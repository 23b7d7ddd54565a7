#include <cstring>
#include <span>

#include "base/status.h"
#include "kernels/copy/copy_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const CopyOp& op) {
  ASSIGN_OR_RETURN(const CopyPlan plan, PlanCopy(op.count, op.most_bytes));
  RETURN_IF_ERROR(CheckCopies(std::span(op.copies, static_cast<size_t>(op.count)), op.most_bytes));
  const cuda::CopyArgs args = {plan, op.copies};
  RunBlocks<NoShared>(
      order, cuda::CopyBlocks(plan), cuda::kCopyThreads,
      [&](HostBlock& block, NoShared&, int64_t i) { cuda::RunCopy(block, args, i); });
  return absl::OkStatus();
}

absl::Status OnHost(HostOrder, const ZeroOp& op) {
  if (op.bytes > 0) std::memset(op.to, 0, static_cast<size_t>(op.bytes));
  return absl::OkStatus();
}

}  // namespace recollect::kernels
