// Successors (docs/model-format.md, "Lexical keys and successors"): a chunk that goes on where a
// retrieved one ends is relevant, too.
#ifndef RECOLLECT_ENGINE_SUCCESSORS_H_
#define RECOLLECT_ENGINE_SUCCESSORS_H_

#include <span>
#include <vector>

#include "engine/landmark_device.h"
#include "kernels/landmark_topk.h"

namespace recollect::engine {

// Lets each of the first `n_ret` of `best`, which are in the order of kernels/landmark_topk.h,
// give its score plus `bias` (<= 0) to the candidate behind it, where that is of the same run.
// Afterwards `best` has as many entries as before, in the same order by their new scores.
void AddSuccessors(std::span<const KeyRun> runs, int n_ret, float bias,
                   std::vector<kernels::ScoredCandidate>& best);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SUCCESSORS_H_
