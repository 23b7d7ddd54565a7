#include "kernels/sample/argmax.h"

#include <limits>

namespace recollect::kernels {

int32_t Argmax(std::span<const float> logits, const NeverChosen& never) {
  int32_t best = -1;
  float largest = -std::numeric_limits<float>::infinity();
  for (int32_t i = 0; i < static_cast<int32_t>(logits.size()); ++i) {
    const float logit = logits[static_cast<size_t>(i)];
    if (logit > largest && i != never.first && i != never.second) {
      best = i;
      largest = logit;
    }
  }
  return best;
}

}  // namespace recollect::kernels
