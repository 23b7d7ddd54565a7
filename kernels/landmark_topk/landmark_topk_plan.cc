#include "kernels/landmark_topk/landmark_topk_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "kernels/block/launch.h"
#include "kernels/cuda/cuda_order.h"
#include "kernels/landmark_topk/landmark_filter_kernel.h"

namespace recollect::kernels {
namespace {

using Strategy = LandmarkTopKPlan::Strategy;

// Thread blocks per multiprocessor: what fits there at once, by shared memory for tiles and by
// registers for loads ahead, so that a part's end is not a gap in loading.
constexpr int64_t kTileBlocks = 4, kAheadBlocks = 2;
// A part shorter than this spends more on its list than on its keys.
constexpr int64_t kMinPartKeys = 8 * cuda::kTopKStep;
// Below this a filter's five launches are most of its time: an estimate that no device has
// measured.
constexpr int64_t kMinFilterKeys = 32768;

using cuda::CeilDiv;

absl::Status Check(const LandmarkTopKSizes& sizes) {
  if (sizes.queries < 0 || sizes.width < 1 || sizes.candidates < 0 || sizes.n < 0) {
    return absl::InvalidArgumentError(absl::StrCat("top-k of ", sizes.queries, " queries, width ",
                                                   sizes.width, ", ", sizes.candidates,
                                                   " candidates, n ", sizes.n));
  }
  return CheckDeviceTopK({"top-k", "landmark keys", "landmark keys"}, sizes.n, sizes.width,
                         sizes.candidates);
}

bool CanRun(Strategy strategy, const LandmarkTopKSizes& sizes) {
  if (strategy == Strategy::kTiles) return true;
  const bool wide = sizes.width == 64 || sizes.width == 128 || sizes.width == 256;
  if (!sizes.aligned || !wide) return false;
  return strategy == Strategy::kAhead || (sizes.n >= 1 && sizes.n <= kMaxFilterTopK);
}

Strategy StrategyOf(const LandmarkTopKSizes& sizes) {
  if (sizes.queries == 1 && CanRun(Strategy::kAhead, sizes)) return Strategy::kAhead;
  const bool many = sizes.queries > cuda::kQueryTile && sizes.candidates >= kMinFilterKeys;
  return many && CanRun(Strategy::kFilter, sizes) ? Strategy::kFilter : Strategy::kTiles;
}

struct Cut {
  int64_t tiles = 0, parts = 0, part_keys = 0;
};

// Divides queries into tiles, and candidates into parts of whole steps, at least `least` of them,
// for as many thread blocks as run at once.
Cut CutOf(const LandmarkTopKSizes& sizes, int64_t tile, int64_t blocks, int64_t step,
          int64_t least) {
  Cut cut = {.tiles = CeilDiv(sizes.queries, tile)};
  const int64_t most = std::max<int64_t>(1, blocks / std::max<int64_t>(1, cut.tiles));
  cut.part_keys = std::max(least, CeilDiv(CeilDiv(sizes.candidates, most), step) * step);
  cut.parts = CeilDiv(sizes.candidates, cut.part_keys);
  return cut;
}

void DivideFilter(int multiprocessors, LandmarkTopKPlan& plan) {
  const Cut cut = CutOf(plan.sizes, cuda::kFilterQueries, multiprocessors, cuda::kFilterKeys,
                        cuda::kFilterKeys);
  plan.filter_tiles = cut.tiles;
  plan.filter_parts = cut.parts;
  plan.filter_part_keys = cut.part_keys;
}

}  // namespace

absl::Status CheckDeviceTopK(const DeviceTopKNames& names, int64_t n, int64_t width,
                             int64_t candidates) {
  if (n > kMaxDeviceTopK) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.search, " with n ", n, ", at most ", kMaxDeviceTopK));
  }
  if (width > kMaxDeviceKeyWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.keys, " of width ", width, ", at most ", kMaxDeviceKeyWidth));
  }
  if (candidates >= cuda::kMaxCandidates) {
    return absl::InvalidArgumentError(absl::StrCat(candidates, " ", names.candidates,
                                                   ", expected fewer than ", cuda::kMaxCandidates));
  }
  return absl::OkStatus();
}

absl::StatusOr<LandmarkTopKPlan> PlanLandmarkTopK(const LandmarkTopKSizes& sizes,
                                                  int multiprocessors) {
  return PlanLandmarkTopK(sizes, multiprocessors, StrategyOf(sizes));
}

absl::StatusOr<LandmarkTopKPlan> PlanLandmarkTopK(const LandmarkTopKSizes& sizes,
                                                  int multiprocessors, Strategy strategy) {
  RETURN_IF_ERROR(Check(sizes));
  if (!CanRun(strategy, sizes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "top-k of keys of width ", sizes.width, sizes.aligned ? ", aligned" : ", not aligned",
        ", n ", sizes.n, ": expected aligned keys of width 64, 128 or 256, and by a filter n 1 to ",
        kMaxFilterTopK));
  }
  LandmarkTopKPlan plan{.sizes = sizes, .strategy = strategy};
  plan.scale = 1.0f / std::sqrt(static_cast<float>(sizes.width));
  const bool ahead = strategy == Strategy::kAhead;
  const Cut cut =
      CutOf(sizes, ahead ? 1 : cuda::kQueryTile,
            multiprocessors * (ahead ? kAheadBlocks : kTileBlocks), cuda::kTopKStep, kMinPartKeys);
  plan.query_tiles = cut.tiles;
  plan.parts = cut.parts;
  plan.part_keys = cut.part_keys;
  if (strategy == Strategy::kFilter) DivideFilter(multiprocessors, plan);
  plan.workspace_bytes = cuda::WorkspaceOf(plan).bytes;
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
