// Recall through a memory adapter at the end of a prompt: the best blocks of the mounted documents,
// their successors, and the weight of nothing (docs/llama.md, "Memory adapter").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/sync/thread_pool.h"
#include "engine/session/mounts.h"
#include "engine/types.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "model/model.h"

namespace recollect::engine {

struct Recalled {
  // The blocks with a weight, the largest first, then other blocks that were found, best first.
  // Candidates are numbered through the mounts, in order. Blocks that only follow a found one have
  // its score less the distance, all others their own.
  std::vector<kernels::ScoredCandidate> blocks;
  // The weights of the first blocks; with `nothing` they add up to 1.
  std::vector<float> weights;
  // Where in `blocks` those are that were found, best first. The rest only follow one of them.
  std::vector<size_t> found;
  float nothing = 1;  // the weight of nothing: that no document is needed; 1 only without blocks
  // The best of the others, for the reader, and their weights, each beside those above.
  std::vector<kernels::ScoredCandidate> more;
  std::vector<float> more_weights;

  // Whether the layers read the blocks with a weight: if they are likelier than nothing. Otherwise
  // the model's own words are the base's own to the bit, where a trace of blocks that have nothing
  // to do with the question would change them.
  bool layers_read() const { return nothing < 0.5F; }
};

// Recalls blocks. `u` [query_width]: CpuModel::RecallQuery of the rows of `asking`. `hits`: the
// least number of blocks to find, if there are so many; `more`: the most for the reader. A block
// that is both found and the successor of a found block has the sum of both weights. REQUIRES: an
// adapter; each pin has hybrid keys. Fails as SearchHybrid.
absl::StatusOr<Recalled> Recall(const model::Model& model, ThreadPool* pool,
                                std::span<const Pin> mounts, std::span<const int32_t> asking,
                                std::span<const float> u, int64_t hits, int64_t more);

// The last step of Recall: the softmax over the scores of the best `read_at_most` blocks of
// `found`, of those that follow them, each `successor_distance` below, and `score_of_nothing`.
Recalled WeighBlocks(std::span<const kernels::ScoredCandidate> found, float score_of_nothing,
                     int64_t read_at_most, float successor_distance,
                     absl::FunctionRef<bool(int64_t)> has_successor);

}  // namespace recollect::engine
