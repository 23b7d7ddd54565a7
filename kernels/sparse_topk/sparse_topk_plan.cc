#include "kernels/sparse_topk/sparse_topk_plan.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect::kernels {
namespace {

// Of a grid of thread blocks, in its first dimension.
constexpr int64_t kMaxGrid = (int64_t{1} << 31) - 1;

absl::Status Check(const SparseTopKSizes& sizes) {
  if (sizes.queries < 0 || sizes.slices < 0 || sizes.candidates < 0 || sizes.width < 0 ||
      sizes.n < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sparse top-k of ", sizes.queries, " queries, ", sizes.slices, " slices, ",
                     sizes.candidates, " candidates, width ", sizes.width, ", n ", sizes.n));
  }
  RETURN_IF_ERROR(CheckDeviceTopK({"sparse top-k", "dense keys", "blocks to search"}, sizes.n,
                                  sizes.width, sizes.candidates));
  if (sizes.slices > 0 && sizes.queries > kMaxGrid / sizes.slices) {
    return absl::InvalidArgumentError(absl::StrCat(sizes.queries, " queries over ", sizes.slices,
                                                   " slices, at most ", kMaxGrid / sizes.slices));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SparseTopKPlan> PlanSparseTopK(const SparseTopKSizes& sizes) {
  RETURN_IF_ERROR(Check(sizes));
  SparseTopKPlan plan{.sizes = sizes};
  if (sizes.width > 0) plan.dense_scale = 1.0f / std::sqrt(static_cast<float>(sizes.width));
  plan.workspace_bytes =
      sizes.queries * sizes.slices * sizes.n * static_cast<int64_t>(sizeof(uint64_t));
  return plan;
}

std::vector<SparseSlice> SparseSlices(std::span<const DeviceSparseRange> ranges) {
  std::vector<SparseSlice> slices;
  for (size_t i = 0; i < ranges.size(); ++i) {
    for (int32_t begin = 0; begin < ranges[i].lists.blocks; begin += kSliceBlocks) {
      slices.push_back({static_cast<int32_t>(i), begin});
    }
  }
  return slices;
}

}  // namespace recollect::kernels
