// The greedy choice: the index of a row's largest logit. Ties go to the lower index; +0 and -0 are
// equal. Infinity may be chosen; NaN and -infinity never are. Returns -1 if no index can be chosen.
#ifndef RECOLLECT_KERNELS_SAMPLE_ARGMAX_H_
#define RECOLLECT_KERNELS_SAMPLE_ARGMAX_H_

#include <cstdint>
#include <span>

namespace recollect::kernels {

// Indices that must not be chosen, such as token ids that stand for no text; -1 means none.
struct NeverChosen {
  int32_t first = -1;
  int32_t second = -1;
  friend bool operator==(const NeverChosen&, const NeverChosen&) = default;
};

int32_t Argmax(std::span<const float> logits, const NeverChosen& never = {});

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_SAMPLE_ARGMAX_H_
