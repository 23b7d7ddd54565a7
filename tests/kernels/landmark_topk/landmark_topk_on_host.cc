#include "kernels/landmark_topk/landmark_topk_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

absl::Status OnHost(HostOrder order, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  if (plan.sizes.queries == 0 || plan.sizes.n == 0) return absl::OkStatus();
  RunBlocks<cuda::LandmarkShared>(order, plan.query_tiles * plan.parts, cuda::kTopKThreads,
                                  [&](HostBlock& block, cuda::LandmarkShared& shared, int64_t i) {
                                    cuda::LandmarkPart(block, shared, op, i / plan.query_tiles,
                                                       i % plan.query_tiles);
                                  });
  RunBlocks<cuda::TopKList>(order, plan.sizes.queries, cuda::kTopKThreads,
                            [&](HostBlock& block, cuda::TopKList& list, int64_t query) {
                              cuda::LandmarkMerge(block, list, op, query);
                            });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
