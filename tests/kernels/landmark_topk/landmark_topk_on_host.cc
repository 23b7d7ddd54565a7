#include "base/check.h"
#include "kernels/landmark_topk/landmark_decide_kernel.h"
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

void MergeOnHost(HostOrder order, const LandmarkTopKOp& op) {
  RunBlocks<cuda::TopKList>(order, op.plan.sizes.queries, cuda::kTopKThreads,
                            [&](HostBlock& block, cuda::TopKList& list, int64_t query) {
                              cuda::LandmarkMerge(block, list, op, query);
                            });
}

// Searches by tiles for the queries in doubt.
void DoubtsOnHost(HostOrder order, const LandmarkTopKOp& op) {
  const LandmarkTopKPlan& plan = op.plan;
  RunBlocks<cuda::LandmarkShared>(order, plan.query_tiles * plan.parts, cuda::kTopKThreads,
                                  [&](HostBlock& block, cuda::LandmarkShared& shared, int64_t i) {
                                    const int64_t tile = i % plan.query_tiles;
                                    if (!cuda::TileInDoubt(op, tile)) return;
                                    cuda::LandmarkPart(block, shared, op, i / plan.query_tiles,
                                                       tile);
                                  });
  RunBlocks<cuda::TopKList>(order, plan.sizes.queries, cuda::kTopKThreads,
                            [&](HostBlock& block, cuda::TopKList& list, int64_t query) {
                              if (cuda::DoubtsOf(op)[query] == 0) return;
                              cuda::LandmarkMerge(block, list, op, query);
                            });
}

template <int kSteps>
void FilterOnHost(HostOrder order, const LandmarkTopKOp& op) {
  using Shared = cuda::FilterShared<kSteps>;
  const LandmarkTopKPlan& plan = op.plan;
  RunBlocks<Shared>(order, plan.filter_tiles * plan.filter_parts, cuda::kTopKThreads,
                    [&](HostBlock& block, Shared& shared, int64_t i) {
                      cuda::LandmarkFilter(block, shared, op, i / plan.filter_tiles,
                                           i % plan.filter_tiles);
                    });
  RunBlocks<cuda::DecideShared>(order, plan.sizes.queries, cuda::kTopKThreads,
                                [&](HostBlock& block, cuda::DecideShared& shared, int64_t query) {
                                  cuda::LandmarkDecide(block, shared, op, query);
                                });
  DoubtsOnHost(order, op);
}

void CheckAligned(const LandmarkTopKOp& op) {
  const SegmentStart* segment = op.segments;
  for (; segment->first < op.plan.sizes.candidates; ++segment) {
    RECOLLECT_CHECK(cuda::IsAligned(segment->keys));
  }
}

}  // namespace

absl::Status OnHost(HostOrder order, const LandmarkTopKOp& op) {
  const LandmarkTopKSizes& sizes = op.plan.sizes;
  const LandmarkTopKPlan::Strategy strategy = op.plan.strategy;
  if (sizes.queries == 0 || sizes.n == 0) return absl::OkStatus();
  if (sizes.aligned) CheckAligned(op);
  using enum LandmarkTopKPlan::Strategy;
  const auto by_width = [&](auto of_64, auto of_128, auto of_256) {
    sizes.width == 64    ? of_64(order, op)
    : sizes.width == 128 ? of_128(order, op)
                         : of_256(order, op);
  };
  if (strategy == kFilter) {
    by_width(&FilterOnHost<4>, &FilterOnHost<8>, &FilterOnHost<16>);
    return absl::OkStatus();
  }
  if (strategy == kTiles) TilesOnHost(order, op);
  if (strategy == kAhead) by_width(&AheadOnHost<1>, &AheadOnHost<2>, &AheadOnHost<4>);
  MergeOnHost(order, op);
  return absl::OkStatus();
}

}  // namespace recollect::kernels
