// The next token from a row of logits: the best, or one drawn under temperature, top-k and top-p.
//
// The row's logits have an order: greater first, ties to the lower index, zeros of both signs
// alike; NaN, -infinity and NeverChosen have no place in it. With temperature 0 the first is taken.
// Else a logit weighs exp((logit - greatest) / temperature) in units of 2^-32, rounded down, and 1
// where it equals the greatest; sums of whole numbers are the same in any order, so that the CPU
// and a device (sample_cuda.h) take the same token of the same logits. Of the first top_k logits,
// the shortest run that has top_p of their weight is left, and `draw` says where in this run's
// weight the token lies.
#ifndef RECOLLECT_KERNELS_SAMPLE_H_
#define RECOLLECT_KERNELS_SAMPLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/argmax.h"

namespace recollect::kernels {

struct SampleSettings {
  float temperature = 0;  // >= 0; infinity: all at a finite distance weigh the same
  int32_t top_k = 0;      // 0: all
  double top_p = 1;       // in (0, 1]
  double draw = 0;        // in [0, 1)
};

// What a call works in; kept from call to call, for one at a time.
struct SampleScratch {
  std::vector<uint64_t> keys;
};

// -1: there is nothing to choose.
int32_t Sample(std::span<const float> logits, const SampleSettings& settings,
               const NeverChosen& never, SampleScratch& scratch);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_SAMPLE_H_
