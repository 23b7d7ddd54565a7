// Retrieval at landmark positions (design 2.4): queries, exact top-n over the candidates of each
// session, weights, and the list of chunks to fetch.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/thread_pool.h"
#include "engine/backend/backend.h"
#include "engine/backend/landmark_index.h"
#include "engine/step/piece.h"
#include "engine/step/recall.h"
#include "kernels/landmark_topk/landmark_topk.h"
#include "model/model.h"

namespace recollect::engine {

// Returns the softmax of the scores, in their order.
std::vector<float> SoftmaxWeights(std::span<const kernels::ScoredCandidate> best);

// Used on the scheduler's thread.
class Retriever {
 public:
  // `threads`: for the search with an adapter's queries; null: the caller's thread.
  Retriever(const model::Model& model, Backend& backend, LandmarkIndex& landmarks,
            ThreadPool* threads)
      : model_(model),
        config_(model.config()),
        backend_(backend),
        landmarks_(landmarks),
        threads_(threads) {}

  // Selects chunks for `group`, for every landmark with candidates in `pieces`, by the rows'
  // residuals on entry to the group, and fills the pieces' `selections` and `wanted`, each chunk
  // once per piece. Chunks that the first rows read and that their session dropped between requests
  // are wanted, too. A piece whose search fails gets its status; an error of the backend is
  // returned.
  absl::Status Select(std::span<Piece* const> pieces, int group);

  // Passes the fetched memory to the landmarks and to those first rows, and reports the landmarks'
  // retrievals if the piece wants them.
  void Attach(Piece& piece, int group) const;

 private:
  // The origin of queries_[i].
  struct Asker {
    Piece* piece = nullptr;
    size_t landmark = 0;  // of the piece
  };
  // Returns whether the request wants to see this query.
  static bool Reports(const Asker& asker);
  // Adds the known parts of later groups' queries to the first group's search.
  void AddLater();
  void ChooseBest(const Asker& asker, LandmarkQuery& query, int group) const;
  // Queries of a piece that asks documents through an adapter [query_width].
  struct Asked {
    std::vector<float> u;
    std::vector<float> alone;  // of the question's rows alone; empty: they are all that ask
  };
  absl::StatusOr<Recalled> RecallFor(const Piece& piece, const Asked& asked) const;
  // Adds the blocks that only the reader reads: also the opening of the best one's document, which
  // says what this is about.
  static void AddForReader(Piece& piece, const Recalled& recalled, Selection& selection);
  // Select for a model with an adapter, which has one group.
  absl::Status SelectRecalled(std::span<Piece* const> pieces);
  // Adds a chunk to those that the piece wants, once; the caller says who reads it. Returns where
  // it is.
  static size_t Want(Piece& piece, const ChunkRef& ref);
  static Selection::Chosen Choose(Piece& piece, const kernels::ScoredCandidate& one, float weight);
  // Adds the chunks beside those that the piece wants, whose words a quote may need.
  static void WantNeighbors(Piece& piece);
  // Adds the chunks that a landmark has chosen to its piece. `weights`: of the first chunks, which
  // the model reads.
  static void AddSelection(const Asker& asker, std::span<const kernels::ScoredCandidate> best,
                           std::span<const float> weights, Selection selection);

  const model::Model& model_;
  const model::ModelConfig& config_;
  Backend& backend_;
  LandmarkIndex& landmarks_;
  ThreadPool* const threads_;
  std::vector<Asker> askers_;
  std::vector<QueryRow> rows_;          // of landmarks that have candidates, or whose query is seen
  std::vector<LandmarkQuery> queries_;  // the first askers_.size() are in use
};

}  // namespace recollect::engine
