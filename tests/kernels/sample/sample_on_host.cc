#include "base/status.h"
#include "kernels/sample/sample_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const SampleOp& op) {
  RETURN_IF_ERROR(CheckRows("sample", {op.rows, op.vocab}));
  RunBlocks<cuda::SampleShared>(order, op.rows, cuda::kSampleThreads,
                                [&](HostBlock& block, cuda::SampleShared& shared, int64_t row) {
                                  cuda::RunSample<HostBlock>({block, shared, op, row});
                                });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
