// Runs a step: the pieces of many sessions go through the stages of the backend together. A piece
// whose chunks are not resident is cut out at that group and continues in a later step, once they
// have been read; the other pieces do not wait for it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/session/tiers.h"
#include "engine/step/piece.h"
#include "engine/step/retrieval.h"
#include "model/model.h"

namespace recollect::engine {

// Used on the scheduler's thread.
class StepRunner {
 public:
  // `fetched` is called on a fetch thread whenever a cut piece can continue.
  StepRunner(const model::Model& model, Backend& backend, ChunkTiers& tiers,
             LandmarkIndex& landmarks, ThreadPool* threads, std::function<void()> fetched);

  // Runs the pieces. Afterwards each has failed (status), is done (stage == last_stage()), or is
  // cut (waiting).
  void Run(std::span<Piece* const> pieces);

  // Returns whether a cut piece can run again because its fetch has ended. If the fetch failed, so
  // does the piece.
  static bool Resume(Piece& piece);

 private:
  int last_stage() const { return groups_ + 2; }
  void RunStages(std::span<Piece* const> pieces);
  // Returns batch_ as the backend sees it, valid until the next call.
  std::span<PieceRows* const> rows();
  // The next functions run batch_; an error is the error of all its pieces.
  absl::Status RunStage(int stage);
  absl::Status AddClosedChunks();
  absl::Status Retrieve(int group);
  absl::Status ProjectWanted();
  // Fills HeadRow::pointed in a model with a pointer, HeadRow::copied in one with an adapter.
  void Point(Piece& piece) const;
  // Fills Piece::judged where it is asked for. For the model's own words no document is read.
  absl::Status Judge(Piece& piece) const;
  absl::Status Judge(Piece& piece, const AskedQuestion& question,
                     const LandmarkMemory& memory) const;
  static void LeaveToModel(Piece& piece, LandmarkMemory& memory);

  const model::Model& model_;
  const bool landmarks_;
  const int groups_;
  const model::Pointer* const pointer_;  // null without a pointer
  const bool copies_;                    // an adapter's pointer head
  Backend& backend_;
  ChunkTiers& tiers_;
  Retriever retriever_;
  const std::function<void()> fetched_;

  std::vector<Piece*> batch_;     // the pieces of the running stage
  std::vector<PieceRows*> rows_;  // the same, as the backend sees them
};

}  // namespace recollect::engine
