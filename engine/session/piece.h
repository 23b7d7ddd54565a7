// A piece: consecutive rows of one session that run through the model together, and their progress.
#ifndef RECOLLECT_ENGINE_SESSION_PIECE_H_
#define RECOLLECT_ENGINE_SESSION_PIECE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/engine.h"
#include "engine/session/tiers.h"
#include "kernels/pointer_mix/pointer_mix.h"
#include "kernels/sample/sample.h"
#include "model/model.h"

namespace recollect::engine {

class Session;

// What one landmark retrieved, for each group. Rows of later pieces use it, too. Between requests
// only refs and weights are kept (Session::DropMemory); the next piece looks the chunks up again.
struct LandmarkMemory {
  struct Group {
    std::vector<ChunkRef> refs;
    model::Retrieved retrieved;
    std::vector<MemoryHandle> chunks;  // keep alive what `retrieved` points to
  };
  std::vector<Group> groups;
};

// Rows of a piece that read the same memory; at most LayerState::kMaxAppend.
struct PieceSegment {
  int64_t first_row = 0;
  int64_t rows = 0;
  std::shared_ptr<LandmarkMemory> memory;  // null: no earlier landmark has retrieved
};

// A landmark of a piece that retrieves.
struct PieceLandmark {
  int64_t row = 0;
  int64_t own_candidates = 0;              // number of the session's own chunks searched
  std::vector<int32_t> recent;             // the tokens before it that its lexical query reads
  std::shared_ptr<LandmarkMemory> memory;  // receives its hits
};

// A block that a landmark of this piece closed: the next chunk.
struct ClosedBlock {
  int64_t rows_before = 0;  // its rows from earlier pieces, kept with the session
  int64_t first_row = 0;    // its first row in this piece
  int64_t rows = 0;         // landmark and tokens
  // For its lexical key and its record: its own tokens, preceded by those that a pointer compares.
  std::vector<int32_t> tokens;
  int64_t text_begin = 0, text_end = 0;
};

// A row whose logits are needed. `target` and `index` are the requester's.
struct HeadRow {
  int64_t row = 0;
  int64_t index = 0;
  int32_t target = -1;
  // In a model with a pointer: the tokens up to this row that it compares, and, from the head's
  // stage on, the tokens that it points to.
  std::vector<int32_t> recent = {};
  std::vector<kernels::PointedToken> pointed = {};
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
// `wanted` belongs to the fetch.
struct Piece {
  Session* session = nullptr;
  SequenceState* sequence = nullptr;  // the session's
  std::weak_ptr<void> owner;          // kept alive by a running fetch
  int64_t hits_per_group = 0;         // 0: n_ret
  bool want_retrievals = false;
  // The backend calls one of the two, whichever is set, once for each head row, on any thread.
  // `choice` is the result of kernels::Sample under `sampling`, so that a device's logits need not
  // be downloaded.
  std::function<void(const HeadRow&, std::span<const float> logits)> consume;
  std::function<void(const HeadRow&, int32_t choice)> choose;
  kernels::SampleSettings sampling;

  // The plan.
  int64_t first_position = 0;
  std::vector<int32_t> ids;
  std::vector<PieceSegment> segments;
  std::vector<PieceLandmark> landmarks;
  std::vector<ClosedBlock> closed;
  int64_t open_row = 0;    // rows from here on belong to the block that is open at the end
  int64_t predictor = -1;  // the row that predicts the next token; -1: none of this piece
  std::vector<HeadRow> head;

  // Progress.
  bool active = false;   // planned and not yet done
  int stage = 0;         // 0: lower layers; 1 + g: group g; then the head; then done
  bool waiting = false;  // cut from the step until a fetch has ended
  absl::Status status;   // an error ends the piece
  std::unique_ptr<Residuals> residuals;  // of its rows; the backend's, kept for the next plan
  std::vector<Selection> selections;
  std::vector<WantedChunk> wanted;
  absl::Status fetch_status;  // written before fetch_done
  std::atomic<bool> fetch_done{false};
  std::vector<Retrieval> retrievals;  // when wanted

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  // Makes the plan empty, beginning at `position`. Allocated memory is kept for the next plan.
  void Reset(int64_t position);
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SESSION_PIECE_H_
