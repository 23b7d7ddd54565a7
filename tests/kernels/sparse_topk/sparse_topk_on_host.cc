#include "kernels/sparse_topk/sparse_topk_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const SparseTopKOp& op) {
  const SparseTopKSizes& sizes = op.plan.sizes;
  if (sizes.queries == 0 || sizes.n == 0) return absl::OkStatus();
  RunBlocks<cuda::SparseShared>(order, sizes.queries * sizes.slices, cuda::kSparseThreads,
                                [&](HostBlock& block, cuda::SparseShared& shared, int64_t i) {
                                  cuda::SearchSlice(block, shared, op, i);
                                });
  RunBlocks<cuda::TopKList>(order, sizes.queries, cuda::kSparseThreads,
                            [&](HostBlock& block, cuda::TopKList& list, int64_t query) {
                              cuda::SparseMerge(block, list, op, query);
                            });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
