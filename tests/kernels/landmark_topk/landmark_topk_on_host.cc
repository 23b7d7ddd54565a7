#include "base/check.h"
#include "kernels/landmark_topk/landmark_ahead_kernel.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {
namespace {

void TilesOnHost(HostOrder order, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  RunBlocks<cuda::LandmarkShared>(order, plan.query_tiles * plan.parts, cuda::kTopKThreads,
                                  [&](HostBlock& block, cuda::LandmarkShared& shared, int64_t i) {
                                    cuda::LandmarkPart(block, shared, op, i / plan.query_tiles,
                                                       i % plan.query_tiles);
                                  });
}

template <int kPieces>
void AheadOnHost(HostOrder order, const LandmarkTopKOp& op) {
  using Shared = cuda::AheadShared<kPieces>;
  RunBlocks<Shared>(order, op.plan.parts, cuda::kTopKThreads,
                    [&](HostBlock& block, Shared& shared, int64_t part) {
                      cuda::LandmarkPartAhead(block, shared, op, part, 0);
                    });
}

void CheckAligned(const LandmarkTopKOp& op) {
  const SegmentStart* segment = op.segments;
  for (; segment->first < op.plan.sizes.candidates; ++segment) {
    RECOLLECT_CHECK(cuda::IsAligned(segment->keys));
  }
}

}  // namespace

absl::Status OnHost(HostOrder order, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  if (plan.sizes.queries == 0 || plan.sizes.n == 0) return absl::OkStatus();
  if (plan.sizes.aligned) CheckAligned(op);
  if (plan.strategy == LandmarkTopKPlan::Strategy::kTiles) {
    TilesOnHost(order, op);
  } else if (plan.sizes.width == 64) {
    AheadOnHost<1>(order, op);
  } else if (plan.sizes.width == 128) {
    AheadOnHost<2>(order, op);
  } else {
    AheadOnHost<4>(order, op);
  }
  RunBlocks<cuda::TopKList>(order, plan.sizes.queries, cuda::kTopKThreads,
                            [&](HostBlock& block, cuda::TopKList& list, int64_t query) {
                              cuda::LandmarkMerge(block, list, op, query);
                            });
  return absl::OkStatus();
}

}  // namespace recollect::kernels
