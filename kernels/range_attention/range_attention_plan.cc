#include "kernels/range_attention/range_attention_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "kernels/block/launch.h"
#include "kernels/range_attention/range_attention_kernel.h"

namespace recollect::kernels {
namespace {

// Rows of one block by row: they find each other's entries in the first-level cache.
constexpr int kBlockRows = 8;
// By split while blocks by row would not fill the device this often.
constexpr int64_t kMinWaves = 4;
constexpr int64_t kMaxWorkspaceBytes = int64_t{256} << 20;

absl::Status Invalid(const auto&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("range attention ", parts...));
}

absl::Status Check(const RangeAttentionSizes& sizes) {
  if (sizes.rows < 0 || sizes.max_entries < 0 || sizes.heads < 1 || sizes.heads > kMaxGridSide) {
    return Invalid("of ", sizes.rows, " rows, ", sizes.heads, " heads, ", sizes.max_entries,
                   " entries");
  }
  if (sizes.kv_heads < 1 || sizes.heads % sizes.kv_heads != 0) {
    return Invalid("of ", sizes.heads, " heads over key-value heads: ", sizes.kv_heads);
  }
  RETURN_IF_ERROR(
      CheckSizes("range attention", {{"with head_dim ", sizes.head_dim, "", 1, kMaxRangeHeadDim}}));
  static_assert(kMaxRangeEntries == kMaxGridSide * cuda::kSplitEntries);
  if (sizes.max_entries > kMaxRangeEntries) {
    return Invalid("over ", sizes.max_entries, " entries, at most ", kMaxRangeEntries);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RangeAttentionPlan> PlanRangeAttention(const RangeAttentionSizes& sizes,
                                                      int multiprocessors) {
  using Strategy = RangeAttentionPlan::Strategy;
  ASSIGN_OR_RETURN(const RangeAttentionPlan by_split,
                   PlanRangeAttention(sizes, Strategy::kBySplit));
  const int64_t blocks = sizes.rows / kBlockRows * sizes.heads;
  const bool few = blocks < kMinWaves * multiprocessors;
  if (few && by_split.workspace_bytes <= kMaxWorkspaceBytes) return by_split;
  return PlanRangeAttention(sizes, Strategy::kByRow);
}

absl::StatusOr<RangeAttentionPlan> PlanRangeAttention(const RangeAttentionSizes& sizes,
                                                      RangeAttentionPlan::Strategy strategy) {
  RETURN_IF_ERROR(Check(sizes));
  RangeAttentionPlan plan{.sizes = sizes, .strategy = strategy};
  plan.scale = 1.0f / std::sqrt(static_cast<float>(sizes.head_dim));
  plan.splits = cuda::CeilDiv(sizes.max_entries, cuda::kSplitEntries);
  if (strategy == RangeAttentionPlan::Strategy::kByRow) {
    plan.block_rows = kBlockRows;
  } else {
    plan.workspace_bytes = sizes.rows * sizes.heads * plan.splits * (2 + sizes.head_dim) *
                           static_cast<int64_t>(sizeof(float));
  }
  return plan;
}

int64_t EntriesOf(const RangeSet& set) {
  int64_t entries = 0;
  for (const RangeSet::Range& range : set.ranges) {
    entries += std::max<int64_t>(0, range.end - range.begin);
  }
  return entries;
}

absl::Status CheckRanges(const RangeAttentionPlan& plan, std::span<const RangeSet> sets) {
  RETURN_IF_ERROR(CheckPlanned("range attention", std::ssize(sets), "rows", plan.sizes.rows));
  for (size_t r = 0; r < sets.size(); ++r) {
    for (const RangeSet::Range& range : sets[r].ranges) {
      if (range.begin < 0) {
        return Invalid("row ", r, ": a range begins at ", range.begin);
      }
    }
    if (EntriesOf(sets[r]) > plan.sizes.max_entries) {
      return Invalid("row ", r, ": ", EntriesOf(sets[r]), " entries, planned for ",
                     plan.sizes.max_entries);
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
