// Successors (docs/model-format.md, "Lexical keys and successors"): the chunk that follows a
// retrieved one is relevant, too.
#pragma once

#include <span>
#include <vector>

#include "engine/backend/landmark_index.h"
#include "kernels/landmark_topk/landmark_topk.h"

namespace recollect::engine {

// Each of the first `n_ret` entries of `best`, which is in the order of
// kernels/landmark_topk/landmark_topk.h, gives its score plus `bias` (<= 0) to the next candidate,
// if that is in the same run. Afterwards `best` has as many entries as before, in the same order by
// their new scores.
void AddSuccessors(std::span<const KeyRun> runs, int n_ret, float bias,
                   std::vector<kernels::ScoredCandidate>& best);

}  // namespace recollect::engine
