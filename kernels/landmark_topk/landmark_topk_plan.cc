#include "kernels/landmark_topk/landmark_topk_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_order.h"
#include "kernels/landmark_topk/landmark_topk_kernel.h"

namespace recollect::kernels {
namespace {

// Thread blocks per multiprocessor: what fits there at once, by shared memory for tiles and by
// registers for loads ahead, so that a part's end is not a gap in loading.
constexpr int64_t kTileBlocks = 4, kAheadBlocks = 2;
// A part shorter than this spends more on its list than on its keys.
constexpr int64_t kMinPartKeys = 8 * cuda::kTopKStep;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

LandmarkTopKPlan::Strategy StrategyOf(const LandmarkTopKSizes& sizes) {
  using enum LandmarkTopKPlan::Strategy;
  const bool wide = sizes.width == 64 || sizes.width == 128 || sizes.width == 256;
  return sizes.aligned && wide && sizes.queries == 1 ? kAhead : kTiles;
}

// Divides the candidates among thread blocks of `tile` queries, of which `blocks` fit onto a
// multiprocessor.
void Divide(int64_t tile, int64_t blocks, LandmarkTopKPlan& plan) {
  const LandmarkTopKSizes& sizes = plan.sizes;
  plan.query_tiles = CeilDiv(sizes.queries, tile);
  const int64_t most = std::max<int64_t>(1, blocks / std::max<int64_t>(1, plan.query_tiles));
  plan.part_keys = std::max(
      kMinPartKeys, CeilDiv(CeilDiv(sizes.candidates, most), cuda::kTopKStep) * cuda::kTopKStep);
  plan.parts = CeilDiv(sizes.candidates, plan.part_keys);
}

}  // namespace

absl::StatusOr<LandmarkTopKPlan> PlanLandmarkTopK(const LandmarkTopKSizes& sizes,
                                                  int multiprocessors) {
  if (sizes.queries < 0 || sizes.width < 1 || sizes.candidates < 0 || sizes.n < 0) {
    return absl::InvalidArgumentError(absl::StrCat("top-k of ", sizes.queries, " queries, width ",
                                                   sizes.width, ", ", sizes.candidates,
                                                   " candidates, n ", sizes.n));
  }
  if (sizes.n > kMaxDeviceTopK) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-k with n ", sizes.n, ", at most ", kMaxDeviceTopK));
  }
  if (sizes.width > kMaxDeviceKeyWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("landmark keys of width ", sizes.width, ", at most ", kMaxDeviceKeyWidth));
  }
  if (sizes.candidates >= cuda::kMaxCandidates) {
    return absl::InvalidArgumentError(absl::StrCat(
        sizes.candidates, " landmark keys, expected fewer than ", cuda::kMaxCandidates));
  }
  LandmarkTopKPlan plan{.sizes = sizes};
  plan.strategy = StrategyOf(sizes);
  plan.scale = 1.0f / std::sqrt(static_cast<float>(sizes.width));
  const bool ahead = plan.strategy == LandmarkTopKPlan::Strategy::kAhead;
  Divide(ahead ? 1 : cuda::kQueryTile, multiprocessors * (ahead ? kAheadBlocks : kTileBlocks),
         plan);
  plan.workspace_bytes =
      sizes.queries * plan.parts * sizes.n * static_cast<int64_t>(sizeof(uint64_t));
  return plan;
}

std::vector<SegmentStart> SegmentTable(std::span<const KeySegment> segments) {
  std::vector<SegmentStart> table;
  int64_t first = 0;
  for (const KeySegment& segment : segments) {
    table.push_back({segment.keys, first});
    first += segment.count;
  }
  table.push_back({nullptr, first});
  return table;
}

}  // namespace recollect::kernels
