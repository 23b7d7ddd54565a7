#include "kernels/pointer_mix/pointer_mix.h"

#include "base/check.h"
#include "kernels/cuda/cuda_math.h"
#include "kernels/elementwise/elementwise.h"

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

}  // namespace recollect::kernels
