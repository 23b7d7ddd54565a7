// The next token from a row of logits: the best, or one drawn under temperature, top-k and top-p.
//
// The row's logits are ordered: greater first, ties by the lower index, with +0 and -0 equal; NaN,
// -infinity and NeverChosen are left out. With temperature 0 the first is chosen. Otherwise a
// logit's weight is exp((logit - greatest) / temperature) in units of 2^-32, rounded down, and 1 if
// it equals the greatest; sums of integers are the same in any order, so the CPU and a device
// (sample_operation.h) choose the same token from the same logits. Of the first top_k logits, the
// shortest run with at least top_p of their weight is kept, and `draw` says where in this run's
// weight the chosen token lies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace recollect::kernels {

// Indices that must not be chosen, such as token ids that stand for no text; -1 means none.
struct NeverChosen {
  int32_t first = -1;
  int32_t second = -1;
  friend bool operator==(const NeverChosen&, const NeverChosen&) = default;
};

// The greedy choice, the first of the row's logits in the order above; -1 if none can be chosen.
int32_t Argmax(std::span<const float> logits, const NeverChosen& never = {});

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
