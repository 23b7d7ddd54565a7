// The next token from a row of logits: the best, or one drawn under temperature, top-k and top-p.
//
// The row's logits are ordered: greater first, ties by the lower index, with +0 and -0 equal; NaN,
// -infinity and NeverChosen are left out. With temperature 0 the first is chosen. Otherwise a
// logit's weight is exp((logit - greatest) / temperature) in units of 2^-32, rounded down, and 1 if
// it equals the greatest; sums of integers are the same in any order, so the CPU and a device
// (sample_cuda.h) choose the same token from the same logits. Of the first top_k logits, the
// shortest run with at least top_p of their weight is kept, and `draw` says where in this run's
// weight the chosen token lies.
#ifndef RECOLLECT_KERNELS_SAMPLE_SAMPLE_H_
#define RECOLLECT_KERNELS_SAMPLE_SAMPLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/sample/argmax.h"

namespace recollect::kernels {

struct SampleSettings {
  float temperature = 0;  // >= 0; infinity: all at a finite distance weigh the same
  int32_t top_k = 0;      // 0: all
  double top_p = 1;       // in (0, 1]
  double draw = 0;        // in [0, 1)
};

// Scratch memory, kept between calls; for one call at a time.
struct SampleScratch {
  std::vector<uint64_t> keys;
};

// -1 if there is no token to choose.
int32_t Sample(std::span<const float> logits, const SampleSettings& settings,
               const NeverChosen& never, SampleScratch& scratch);

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_SAMPLE_SAMPLE_H_
