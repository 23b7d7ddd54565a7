// What the end of a prompt recalls through a memory adapter: the best blocks of the mounted
// documents, the successors of these, and how much of all of it is nothing (docs/model-format.md,
// "Memory adapter").
#ifndef RECOLLECT_ENGINE_STEP_RECALL_H_
#define RECOLLECT_ENGINE_STEP_RECALL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/session/mounts.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "model/model.h"

namespace recollect::engine {

struct Recalled {
  // The blocks that the layers read, the one of the largest weight first, then others that were
  // found, best first. Candidates are numbered through the mounts, in order.
  std::vector<kernels::ScoredCandidate> blocks;
  std::vector<float> weights;  // of those that are read
  // What the weights leave to 1: no document has anything to say. Where that is nearly all, nothing
  // is read, and it is 1.
  float nothing = 1;
};

// `u` [query_width]: CpuModel::RecallQuery of the rows of `asking`. `hits`: find at least so many
// blocks, if there are. A block that is both found and the successor of one that was found has the
// sum of both weights. REQUIRES: an adapter; each pin has hybrid keys.
Recalled Recall(const model::Model& model, ThreadPool* pool, std::span<const Pin> mounts,
                std::span<const int32_t> asking, std::span<const float> u, int64_t hits);

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_STEP_RECALL_H_
