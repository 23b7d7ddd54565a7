#include "kernels/linear_attention/linear_attention_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/linear_attention/linear_attention_kernel.h"

namespace recollect::kernels {
namespace {

constexpr int64_t kMaxGridSide = 65535;
// The blocks count reads, a row and head each, in 32 bits.
constexpr int64_t kMaxReads = int64_t{1} << 30;
constexpr int kWarp = 32;

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

}  // namespace

absl::StatusOr<LinearAttentionPlan> PlanLinearAttention(const LinearAttentionSizes& sizes) {
  const LinearAttentionShape& shape = sizes.shape;
  const auto refuse = [](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("linear attention ", what...));
  };
  if (sizes.segments < 0 || sizes.segments > kMaxGridSide) {
    return refuse("of ", sizes.segments, " segments, expected 0 to ", kMaxGridSide);
  }
  if (shape.heads < 1 || shape.heads > kMaxGridSide) {
    return refuse("of ", shape.heads, " heads, expected 1 to ", kMaxGridSide);
  }
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
    return refuse("of ", shape.heads, " heads over key-value heads: ", shape.kv_heads);
  }
  if (shape.head_dim < 1 || shape.head_dim > kMaxLinearHeadDim || shape.head_dim % 2 != 0) {
    return refuse("with head_dim ", shape.head_dim, ", expected an even number up to ",
                  kMaxLinearHeadDim);
  }
  LinearAttentionPlan plan{.sizes = sizes};
  plan.tiles = CeilDiv(shape.head_dim, cuda::kLinearColumns);
  plan.lanes = CeilDiv(2 * shape.head_dim, cuda::kLaneFeatures);
  plan.threads = CeilDiv(plan.lanes * cuda::kLinearColumns, kWarp) * kWarp;
  return plan;
}

absl::Status CheckLinearAttention(const LinearAttentionPlan& plan,
                                  std::span<const LinearAttentionSegment> segments) {
  if (static_cast<int64_t>(segments.size()) > plan.sizes.segments) {
    return absl::InvalidArgumentError(absl::StrCat("linear attention of ", segments.size(),
                                                   " segments, planned for ", plan.sizes.segments));
  }
  const int64_t most_rows = kMaxReads / plan.sizes.shape.heads;
  for (size_t s = 0; s < segments.size(); ++s) {
    const LinearAttentionSegment& segment = segments[s];
    const auto refuse = [s](const auto&... what) {
      return absl::InvalidArgumentError(
          absl::StrCat("linear attention segment ", s, ": ", what...));
    };
    if (segment.rows < 0 || segment.rows > most_rows) {
      return refuse(segment.rows, " rows, expected 0 to ", most_rows);
    }
    if (segment.entering < 0 || segment.entering > segment.rows) {
      return refuse(segment.entering, " positions enter in ", segment.rows, " rows");
    }
    if (segment.rows == 0) continue;
    if (segment.q == nullptr || segment.state == nullptr || segment.out == nullptr) {
      return refuse("no q, state or out");
    }
    if (segment.entering > 0 && (segment.keys == nullptr || segment.values == nullptr)) {
      return refuse("no keys or values of ", segment.entering, " positions");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFeatures(const RowSizes& sizes) {
  if (absl::Status status = CheckRows("features", sizes); !status.ok()) return status;
  if (sizes.width <= kMaxLinearHeadDim) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("features of ", sizes.width, " channels, expected 0 to ", kMaxLinearHeadDim));
}

}  // namespace recollect::kernels
