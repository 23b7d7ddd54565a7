#include <cstring>

#include "kernels/copy/copy_kernel.h"
#include "tests/kernels/device/host_launches.h"

RECOLLECT_ON_HOST(CopyOp)

namespace recollect::kernels {

absl::Status OnHost(HostOrder, const ZeroOp& op) {
  if (op.bytes > 0) std::memset(op.to, 0, static_cast<size_t>(op.bytes));
  return absl::OkStatus();
}

}  // namespace recollect::kernels
