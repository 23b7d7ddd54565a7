#include "kernels/pointer_mix/pointer_mix.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "kernels/cuda/cuda_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/pointer_mix/pointer_mix_operation.h"

namespace recollect::kernels {

void MixPointed(OpContext& ctx, int64_t vocab, int32_t sentinel,
                std::span<const PointedToken> pointed, float* logits) {
  RECOLLECT_CHECK(vocab >= 2 && sentinel >= 0 && sentinel < vocab);
  const float score = logits[sentinel];
  logits[sentinel] = -cuda::Infinity();
  if (pointed.empty()) return;
  const float base = LogSumExp(ctx, logits, vocab) - score;
  for (const PointedToken& to : pointed) {
    float& logit = logits[to.token];
    logit = cuda::LogAddExp(logit, to.score + base);
  }
}

absl::Status CheckPointerRows(const RowSizes& sizes, int32_t sentinel) {
  RETURN_IF_ERROR(CheckRows("pointer mix", sizes));
  if (sentinel >= 0 && sentinel < sizes.width && sizes.width >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pointer mix of ", sizes.width, " logits: the sentinel is ", sentinel));
}

}  // namespace recollect::kernels
