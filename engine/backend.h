// Where the layers of the model run: on the compute threads (cpu_backend.h) or on a device. The
// engine plans rows, retrieves and fetches chunks; a backend does the arithmetic from token ids to
// the next token, and holds what sequences carry from row to row. One step of pieces, each
// stage over those of them that got so far:
//
//   RunLower → EncodeClosed → for each group: Queries → (engine: top-n, fetch) → Project → RunGroup
//   → RunHead
//
// One backend gives each row the same bits whatever rows run beside it. Between backends tokens may
// differ as far as their roundings do; what they store is one format, and each goes on with what
// another has written.
#ifndef RECOLLECT_ENGINE_BACKEND_H_
#define RECOLLECT_ENGINE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/memory_encoder.h"
#include "kernels/device.h"
#include "kernels/gca.h"
#include "model/local_state.h"
#include "model/model.h"
#include "store/document_store.h"

namespace recollect::engine {

struct Piece;

// What one session carries from row to row: the local state of every layer, and the rows of its
// open block after the last lower layer, until the block's chunk is made.
class SequenceState {
 public:
  virtual ~SequenceState() = default;
  // Of the local states, for the state budget.
  virtual int64_t bytes() const = 0;
  // Goes on from there, behind a prefix. Thread-safe beside stages. REQUIRES: has run nothing;
  // the state has the same patterns and all layers. Fails for lack of memory; then it can only be
  // destroyed.
  virtual absl::Status Begin(model::LocalState state) = 0;
};

// The residual stream of one piece's rows, [rows, d]: made by the first RunLower of a request, kept
// while the piece waits between stages, and used again for the request's next pieces.
class Residuals {
 public:
  virtual ~Residuals() = default;
};

// Memory K, V of one chunk, where RunGroup reads it.
struct ProjectedMemory {
  kernels::MemoryView view;           // in the memory of the backend's device
  std::shared_ptr<const void> owner;  // of what `view` points to; frees it
  int64_t bytes = 0;                  // for the memory budget, which makes room only afterwards
};

// A chunk's states on their way to the backend's device.
class StagedStates {
 public:
  virtual ~StagedStates() = default;
};

struct ChunkToProject {
  const store::ChunkRecord* record = nullptr;
  const StagedStates* staged = nullptr;  // of Stage(*record); null: none
};

// A landmark row that retrieves.
struct QueryRow {
  const Piece* piece = nullptr;
  int64_t row = 0;     // of the piece
  std::span<float> u;  // [d_r], in RAM: the answer, without its lexical part
};

// Stages are called one at a time, by the scheduler's thread or, once that has stopped, the one
// that shuts the engine down; everything else is thread-safe, beside a running stage too. When a
// stage returns, what it was given may be changed or freed at once. What a backend made may be
// destroyed by any thread, also beside a running stage and after the backend.
//
// An error of a stage ends every piece it was given: RESOURCE_EXHAUSTED for memory, UNAVAILABLE for
// a device that is lost. The sequences of these pieces can then only be destroyed; others go on.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda:0 NVIDIA H200"
  // UNAVAILABLE once its device is lost, for good.
  virtual absl::Status health() const { return absl::OkStatus(); }
  // Of its device just now; zeros: RAM, or a device that is lost.
  virtual kernels::DeviceRoom room() const { return {}; }
  // So far: the rest of the work was queued operation by operation.
  virtual int64_t graph_launches() const { return 0; }

  // A sequence before its first row, for Piece::sequence. `patterns` are valid for the model;
  // INVALID_ARGUMENT, here and below: not for this backend.
  virtual absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      const model::LocalPatterns& patterns) = 0;
  // For a document before its first token.
  virtual absl::StatusOr<std::unique_ptr<MemoryEncoder>> NewEncoder(
      const model::LocalPatterns& patterns) = 0;

  // Embeds the ids of each piece and runs its segments through the lower layers: advances their
  // states in the piece's sequence and leaves the rows in Piece::residuals.
  virtual absl::Status RunLower(std::span<Piece* const> pieces) = 0;

  // The chunks of Piece::closed, piece by piece, each in order. A block's first rows_before rows
  // are those that earlier calls kept with the sequence. Then keeps there, for later pieces, the
  // rows from open_row on: behind what is there when the piece closed nothing, else in its place.
  // REQUIRES: landmarks; called once after each RunLower, for all of its pieces.
  virtual absl::StatusOr<std::vector<model::EncodedChunk>> EncodeClosed(
      std::span<Piece* const> pieces) = 0;

  // Retrieval queries of `group`, from residuals on entry to it. One that has nothing to find is
  // not asked. REQUIRES: landmarks, as of the next two.
  virtual absl::Status Queries(int group, std::span<const QueryRow> rows) = 0;

  // Begins to bring a record's states to where Project reads them. No stage: thread-safe. Null
  // where that is RAM, and when it failed: Project then brings them itself.
  virtual std::shared_ptr<const StagedStates> Stage(const store::ChunkRecord& /*record*/) {
    return nullptr;
  }

  // Memory of stored chunks, in their order, with the same bits whatever others are beside it.
  virtual absl::StatusOr<std::vector<ProjectedMemory>> Project(
      std::span<const ChunkToProject> chunks) = 0;

  // Runs the layers of `group` over the pieces' residuals, in place. A segment reads
  // `memory->groups[group].retrieved`, or no memory where that is null or empty.
  virtual absl::Status RunGroup(std::span<Piece* const> pieces, int group) = 0;

  // Logits of Piece::head, each given to Piece::consume, or the choice among each to Piece::choose
  // (piece.h); on any thread or several at once.
  virtual absl::Status RunHead(std::span<Piece* const> pieces) = 0;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_BACKEND_H_
