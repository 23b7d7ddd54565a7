// The greedy choice: the index of the largest of a row's logits, ties to the lower index, zeros of
// both signs alike. Infinity may be chosen; NaN and -infinity never are. -1: there is nothing left.
#ifndef RECOLLECT_KERNELS_ARGMAX_H_
#define RECOLLECT_KERNELS_ARGMAX_H_

#include <cstdint>
#include <span>

namespace recollect::kernels {

// Indices that are not chosen, such as a vocabulary's that mean no text; -1 stands for none.
struct NeverChosen {
  int32_t first = -1;
  int32_t second = -1;
};

int32_t Argmax(std::span<const float> logits, const NeverChosen& never = {});

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_ARGMAX_H_
