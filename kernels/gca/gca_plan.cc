#include "kernels/gca/gca_plan.h"

#include <cmath>
#include <numbers>
#include <vector>

#include "base/status.h"
#include "kernels/block/check_sizes.h"
#include "kernels/gca/gca_kernel.h"

namespace recollect::kernels {
namespace {

// Up to this many rows a group, a block for each chunk keeps more of the device busy than one for
// all of them. An estimate: no device has measured it yet.
constexpr int kMaxRowsByChunk = 4;

static_assert(cuda::kGcaMemoryRows >= kMaxChunkTokens);

absl::Status Invalid(const auto&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("GCA ", parts...));
}

absl::Status Check(const GcaShape& shape, const GcaSizes& sizes) {
  if (shape.heads < 1 || shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
    return Invalid("with ", shape.heads, " heads over memory heads: ", shape.kv_heads);
  }
  RETURN_IF_ERROR(CheckSizes("GCA", {{"with head_dim ", shape.head_dim, "", 1, kMaxGcaHeadDim}}));
  if (sizes.groups < 0 || sizes.rows < 0 || sizes.max_group_chunks < 0) {
    return Invalid("of ", sizes.groups, " groups, ", sizes.rows, " rows, ", sizes.max_group_chunks,
                   " chunks");
  }
  if (sizes.max_group_rows < 0 || sizes.max_group_rows > kMaxGcaGroupRows) {
    return Invalid("groups of ", sizes.max_group_rows, " rows, at most ", kMaxGcaGroupRows);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GcaPlan> PlanGca(const GcaShape& shape, const GcaSizes& sizes, DType q_dtype) {
  return PlanGca(shape, sizes, q_dtype,
                 sizes.max_group_rows <= kMaxRowsByChunk ? GcaPlan::Strategy::kByChunk
                                                         : GcaPlan::Strategy::kByGroup);
}

absl::StatusOr<GcaPlan> PlanGca(const GcaShape& shape, const GcaSizes& sizes, DType q_dtype,
                                GcaPlan::Strategy strategy) {
  RETURN_IF_ERROR(Check(shape, sizes));
  GcaPlan plan{.shape = shape, .sizes = sizes, .q_dtype = q_dtype, .strategy = strategy};
  const double factor = q_dtype == DType::kBf16 ? std::numbers::log2e : 1;
  plan.scale = static_cast<float>(factor / std::sqrt(shape.head_dim));
  if (strategy == GcaPlan::Strategy::kByChunk) {
    plan.workspace_bytes = sizes.rows * sizes.max_group_chunks * shape.heads * shape.head_dim *
                           static_cast<int64_t>(sizeof(float));
  }
  return plan;
}

absl::Status CheckGca(const GcaPlan& plan, std::span<const GcaGroup> groups,
                      std::span<const MemoryView> chunks) {
  const GcaSizes& sizes = plan.sizes;
  RETURN_IF_ERROR(CheckPlanned("GCA", std::ssize(groups), "groups", sizes.groups));
  std::vector<bool> taken(static_cast<size_t>(sizes.rows));
  for (size_t g = 0; g < groups.size(); ++g) {
    const GcaGroup& group = groups[g];
    if (group.rows < 1 || group.rows > sizes.max_group_rows || group.first_row < 0 ||
        group.first_row > sizes.rows - group.rows) {
      return Invalid("group ", g, ": rows from ", group.first_row, ", ", group.rows,
                     " of them, planned for ", sizes.rows, " and ", sizes.max_group_rows);
    }
    if (group.chunks < 0 || group.chunks > sizes.max_group_chunks || group.first_chunk < 0 ||
        group.first_chunk > static_cast<int64_t>(chunks.size()) - group.chunks) {
      return Invalid("group ", g, ": chunks from ", group.first_chunk, ", ", group.chunks,
                     " of them, planned for ", sizes.max_group_chunks, " of ", chunks.size());
    }
    for (int64_t r = group.first_row; r < group.first_row + group.rows; ++r) {
      if (taken[static_cast<size_t>(r)]) return Invalid("group ", g, ": takes again row ", r);
      taken[static_cast<size_t>(r)] = true;
    }
  }
  for (size_t e = 0; e < chunks.size(); ++e) {
    if (chunks[e].rows < 1 || chunks[e].rows > kMaxChunkTokens) {
      return Invalid("chunk ", e, ": ", chunks[e].rows, " rows, expected 1 to ", kMaxChunkTokens);
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::kernels
