#include "kernels/linear_attention/linear_attention_plan.h"

#include "absl/strings/str_cat.h"
#include "base/numeric/round_up.h"
#include "kernels/block/launch.h"
#include "kernels/linear_attention/linear_attention_kernel.h"

namespace recollect::kernels {
namespace {

// The blocks count reads, a row and head each, in 32 bits.
constexpr int64_t kMaxReads = int64_t{1} << 30;
constexpr int kWarp = 32;

}  // namespace

absl::StatusOr<LinearAttentionPlan> PlanLinearAttention(const LinearAttentionSizes& sizes) {
  const LinearAttentionShape& shape = sizes.shape;
  const auto refuse = [](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("linear attention ", what...));
  };
  RETURN_IF_ERROR(
      CheckSizes("linear attention", {{"of ", sizes.segments, " segments", 0, kMaxGridSide},
                                      {"of ", shape.heads, " heads", 1, kMaxGridSide}}));
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
    return refuse("of ", shape.heads, " heads over key-value heads: ", shape.kv_heads);
  }
  if (shape.head_dim < 1 || shape.head_dim > kMaxLinearHeadDim || shape.head_dim % 2 != 0) {
    return refuse("with head_dim ", shape.head_dim, ", expected an even number up to ",
                  kMaxLinearHeadDim);
  }
  LinearAttentionPlan plan{.sizes = sizes};
  plan.tiles = cuda::CeilDiv(shape.head_dim, cuda::kLinearColumns);
  plan.lanes = static_cast<int>(cuda::CeilDiv(2 * shape.head_dim, cuda::kLaneFeatures));
  plan.threads = RoundUp(plan.lanes * cuda::kLinearColumns, kWarp);
  return plan;
}

absl::Status CheckLinearAttention(const LinearAttentionPlan& plan,
                                  std::span<const LinearAttentionSegment> segments) {
  RETURN_IF_ERROR(
      CheckPlanned("linear attention", std::ssize(segments), "segments", plan.sizes.segments));
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
  RETURN_IF_ERROR(CheckRows("features", sizes));
  return CheckSizes("features", {{"of ", sizes.width, " channels", 0, kMaxLinearHeadDim}});
}

}  // namespace recollect::kernels
