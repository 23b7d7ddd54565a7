#include "kernels/range_attention/range_attention_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "kernels/range_attention/range_attention_kernel.h"

namespace recollect::kernels {
namespace {

constexpr int64_t kMaxGridSide = 65535;
// Rows of one block by row: they find each other's entries in the first-level cache.
constexpr int kBlockRows = 8;
// By split while blocks by row would not fill the device this often.
constexpr int64_t kMinWaves = 4;
constexpr int64_t kMaxWorkspaceBytes = int64_t{256} << 20;

absl::Status CheckSizes(const RangeAttentionSizes& sizes) {
  if (sizes.rows < 0 || sizes.max_entries < 0 || sizes.heads < 1 || sizes.heads > kMaxGridSide) {
    return absl::InvalidArgumentError(absl::StrCat("range attention of ", sizes.rows, " rows, ",
                                                   sizes.heads, " heads, ", sizes.max_entries,
                                                   " entries"));
  }
  if (sizes.kv_heads < 1 || sizes.heads % sizes.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "range attention of ", sizes.heads, " heads over key-value heads: ", sizes.kv_heads));
  }
  if (sizes.head_dim < 1 || sizes.head_dim > kMaxRangeHeadDim) {
    return absl::InvalidArgumentError(absl::StrCat("range attention with head_dim ", sizes.head_dim,
                                                   ", expected 1 to ", kMaxRangeHeadDim));
  }
  static_assert(kMaxRangeEntries == kMaxGridSide * cuda::kSplitEntries);
  if (sizes.max_entries > kMaxRangeEntries) {
    return absl::InvalidArgumentError(absl::StrCat("range attention over ", sizes.max_entries,
                                                   " entries, at most ", kMaxRangeEntries));
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
  if (absl::Status status = CheckSizes(sizes); !status.ok()) return status;
  RangeAttentionPlan plan{.sizes = sizes, .strategy = strategy};
  plan.scale = 1.0f / std::sqrt(static_cast<float>(sizes.head_dim));
  plan.splits = (sizes.max_entries + cuda::kSplitEntries - 1) / cuda::kSplitEntries;
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
  if (static_cast<int64_t>(sets.size()) > plan.sizes.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("range attention of ", sets.size(), " rows, planned for ", plan.sizes.rows));
  }
  for (size_t r = 0; r < sets.size(); ++r) {
    for (const RangeSet::Range& range : sets[r].ranges) {
      if (range.begin < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("range attention row ", r, ": a range begins at ", range.begin));
      }
    }
    if (EntriesOf(sets[r]) > plan.sizes.max_entries) {
      return absl::InvalidArgumentError(absl::StrCat("range attention row ", r, ": ",
                                                     EntriesOf(sets[r]), " entries, planned for ",
                                                     plan.sizes.max_entries));
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
