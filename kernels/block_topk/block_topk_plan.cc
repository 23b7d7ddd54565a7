#include "kernels/block_topk/block_topk_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/block/launch.h"
#include "kernels/block_topk/block_topk_kernel.h"

namespace recollect::kernels {
namespace {

// Positions are int32_t in the lists, and their sums stay within it.
constexpr int64_t kMaxCount = int64_t{1} << 30;
// As for landmark keys (landmark_topk_plan.cc).
constexpr int64_t kBlocksPerMultiprocessor = 4;
constexpr int64_t kMinPartBlocks = 8 * cuda::kScoreStep;

absl::Status Check(const BlockTopKSizes& sizes) {
  return CheckSizes("block top-k", {{"of ", sizes.rows, " rows", 0, kMaxCount},
                                    {"of ", sizes.heads, " heads", 1, kMaxGridSide},
                                    {"with head_dim ", sizes.head_dim, "", 1, kMaxRangeHeadDim},
                                    {"of blocks of ", sizes.block, " positions", 1, kMaxCount},
                                    {"with count ", sizes.count, "", 1, kMaxDeviceTopK + 1},
                                    {"at position ", sizes.max_position, "", 0, kMaxCount},
                                    {"with ", sizes.max_entries, " entries", 0, kMaxCount}});
}

}  // namespace

absl::StatusOr<BlockTopKPlan> PlanBlockTopK(const BlockTopKSizes& sizes, int multiprocessors) {
  RETURN_IF_ERROR(Check(sizes));
  BlockTopKPlan plan{.sizes = sizes};
  plan.row_tiles = cuda::CeilDiv(sizes.rows, cuda::kRowTile);
  const int64_t blocks = sizes.count == 1 ? 0 : sizes.max_position / sizes.block;
  const int64_t most = std::max<int64_t>(1, multiprocessors * kBlocksPerMultiprocessor /
                                                std::max<int64_t>(1, plan.row_tiles * sizes.heads));
  plan.part_blocks =
      std::max(kMinPartBlocks,
               cuda::CeilDiv(cuda::CeilDiv(blocks, most), cuda::kScoreStep) * cuda::kScoreStep);
  plan.parts = cuda::CeilDiv(blocks, plan.part_blocks);
  plan.workspace_bytes = sizes.rows * sizes.heads * plan.parts * (sizes.count - 1) *
                         static_cast<int64_t>(sizeof(uint64_t));
  return plan;
}

int64_t MostBlockEntries(const BlockTopKSizes& sizes, const BlockPattern& pattern,
                         int64_t position) {
  const cuda::PatternCut cut = cuda::CutPattern(pattern, position, position + 1);
  const int64_t entries = cuda::PatternBefore(cut, position + 1) + sizes.count * sizes.block;
  return std::min(position + 1, entries);
}

absl::Status CheckBlockTopK(const BlockTopKPlan& plan, std::span<const BlockTopKRow> rows,
                            std::span<const BlockPattern> patterns) {
  const BlockTopKSizes& sizes = plan.sizes;
  if (static_cast<int64_t>(rows.size()) != sizes.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("block top-k of ", rows.size(), " rows, planned for ", sizes.rows));
  }
  if (patterns.size() != 1 && static_cast<int64_t>(patterns.size()) != sizes.heads) {
    return absl::InvalidArgumentError(absl::StrCat("block top-k with ", patterns.size(),
                                                   " patterns, expected 1 or ", sizes.heads));
  }
  for (size_t h = 0; h < patterns.size(); ++h) {
    const BlockPattern& pattern = patterns[h];
    if (pattern.window < 0 || pattern.initial < 0 || pattern.span < 0) {
      return absl::InvalidArgumentError(absl::StrCat("block top-k pattern ", h, ": window ",
                                                     pattern.window, ", initial ", pattern.initial,
                                                     ", span ", pattern.span));
    }
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    const BlockTopKRow& row = rows[r];
    const auto refuse = [r](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat("block top-k row ", r, ": ", what...));
    };
    if (row.position < 0 || row.position > sizes.max_position) {
      return refuse("position ", row.position, ", planned up to ", sizes.max_position);
    }
    const bool chooses = sizes.count > 1 && row.position >= sizes.block;
    if (chooses && (row.low == nullptr || row.high == nullptr)) return refuse("no bounds");
    for (const BlockPattern& pattern : patterns) {
      const int64_t entries = MostBlockEntries(sizes, pattern, row.position);
      if (entries > sizes.max_entries) {
        return refuse("up to ", entries, " entries, planned for ", sizes.max_entries);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
