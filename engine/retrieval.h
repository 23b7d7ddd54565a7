// Retrieval at landmark positions (design 2.4): queries, exact top-n over the candidates of each
// session, weights, and the list of chunks that this needs.
#ifndef RECOLLECT_ENGINE_RETRIEVAL_H_
#define RECOLLECT_ENGINE_RETRIEVAL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/piece.h"
#include "kernels/landmark_topk.h"
#include "kernels/op_context.h"
#include "model/model.h"

namespace recollect::engine {

// softmax over scores, in their order.
std::vector<float> SoftmaxWeights(std::span<const kernels::ScoredCandidate> best);

// Used on the scheduler's thread; computes on the pool.
class Retriever {
 public:
  Retriever(const model::Model& model, ThreadPool& pool, std::vector<kernels::OpContext>& contexts)
      : model_(model), pool_(pool), contexts_(contexts) {}

  // For every landmark with candidates in `pieces`: selects for `group` from the rows' residuals on
  // entry to it, and fills the pieces' `selections` and `wanted`, each chunk once per piece.
  void Select(std::span<Piece* const> pieces, int group);

  // Hands the memory that has come in to the landmarks, and reports when the piece wants that.
  void Attach(Piece& piece, int group) const;

 private:
  struct Query {
    Piece* piece = nullptr;
    size_t landmark = 0;  // of the piece
    std::vector<float> u;
    std::vector<kernels::KeySegment> segments;
    int64_t candidates = 0;
    int count = 0;  // to select
    std::vector<std::vector<kernels::ScoredCandidate>> parts;
  };
  // A range of one query's candidates.
  struct Scan {
    Query* query = nullptr;
    size_t part = 0;
    int64_t begin = 0, end = 0;
  };
  void Search(std::span<Query> queries, int group);
  void Choose(Query& query, int group) const;

  const model::Model& model_;
  ThreadPool& pool_;
  std::vector<kernels::OpContext>& contexts_;
  std::vector<Query> queries_;
  std::vector<Scan> scans_;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_RETRIEVAL_H_
