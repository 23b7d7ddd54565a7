// A piece: consecutive rows of one session that run through the model together, and their progress.
#ifndef RECOLLECT_ENGINE_SESSION_PIECE_H_
#define RECOLLECT_ENGINE_SESSION_PIECE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/backend/rows.h"
#include "engine/engine.h"
#include "engine/session/tiers.h"

namespace recollect::engine {

class Session;

// A landmark of a piece that retrieves.
struct PieceLandmark {
  int64_t row = 0;
  int64_t own_candidates = 0;              // number of the session's own chunks searched
  std::vector<int32_t> recent;             // the tokens before it that its lexical query reads
  std::shared_ptr<LandmarkMemory> memory;  // receives its hits
};

// What one landmark of the piece selected for the group now being retrieved.
struct Selection {
  size_t landmark = 0;  // index into Piece::landmarks
  int64_t candidates = 0;
  struct Chosen {
    size_t wanted = 0;  // index into Piece::wanted
    int mount = -1;     // -1: a chunk of the session's own
    float score = 0, weight = 0;
  };
  std::vector<Chosen>
      chosen;  // best first; the first `used` feed the model, the rest are only reported
  size_t used = 0;
};

// Owned by a request; advanced by StepRunner on the scheduler's thread. While a fetch runs,
// `wanted` belongs to the fetch. A backend sees the PieceRows alone.
struct Piece : PieceRows {
  Session* session = nullptr;
  std::weak_ptr<void> owner;   // kept alive by a running fetch
  int64_t hits_per_group = 0;  // 0: n_ret
  bool want_retrievals = false;

  // The plan, beside the rows.
  std::vector<PieceLandmark> landmarks;
  int64_t predictor = -1;  // the row that predicts the next token; -1: none of this piece

  // Progress.
  bool active = false;   // planned and not yet done
  int stage = 0;         // 0: lower layers; 1 + g: group g; then the head; then done
  bool waiting = false;  // cut from the step until a fetch has ended
  absl::Status status;   // an error ends the piece
  std::vector<Selection> selections;
  std::vector<WantedChunk> wanted;
  absl::Status fetch_status;  // written before fetch_done
  std::atomic<bool> fetch_done{false};
  std::vector<Retrieval> retrievals;  // when wanted

  // Makes the plan empty, beginning at `position`. Allocated memory is kept for the next plan.
  void Reset(int64_t position);
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SESSION_PIECE_H_
