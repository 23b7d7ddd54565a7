#include "base/status.h"
#include "kernels/pointer_mix/pointer_mix_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const MixPointedOp& op) {
  RETURN_IF_ERROR(CheckPointerRows({op.rows, op.vocab}, op.sentinel));
  RunBlocks<cuda::PointerShared>(order, op.rows, cuda::kPointerThreads,
                                 [&](HostBlock& block, cuda::PointerShared& shared, int64_t row) {
                                   cuda::RunPointerMix(block, shared, op, row);
                                 });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
