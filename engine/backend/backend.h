// Where the layers of the model run: on the compute threads (cpu_backend.h) or on a device. The
// engine plans rows, retrieves and fetches chunks; a backend computes everything from token ids to
// the next token, and holds the states that sequences carry from row to row. A step runs pieces
// through these stages, each stage over the pieces that have reached it:
//
//   RunLower → EncodeClosed → for each group: Queries → (engine: top-n, fetch) → Project → RunGroup
//   → RunHead
//
// A backend gives each row the same bits whatever other rows are in the step. Tokens may differ
// between backends as far as their roundings do. All backends store one format: documents and
// states written with one backend can be used with another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/memory_encoder.h"
#include "kernels/device/device.h"
#include "kernels/gca/gca.h"
#include "model/chunk.h"
#include "model/reading.h"
#include "model/reranker.h"
#include "model/state/local_state.h"
#include "store/document_store.h"

namespace recollect::engine {

struct PieceRows;

// The state that one session carries from row to row: the local state of every layer, and the rows
// of its open block after the last lower layer, until the block's chunk is made.
class SequenceState {
 public:
  virtual ~SequenceState() = default;
  // Bytes of the local states, for the state budget.
  virtual int64_t bytes() const = 0;
  // Starts from `state`, that of a prefix. May run concurrently with stages. REQUIRES: has run
  // nothing; the state has the same patterns and all layers. Fails for lack of memory; afterwards
  // the sequence can only be destroyed.
  virtual absl::Status Begin(model::LocalState state) = 0;
  // Forgets the positions from `length` on, so that the sequence continues as if it had never run
  // them. False, and nothing is changed, where a layer cannot. REQUIRES: no stage runs on it; no
  // landmarks.
  virtual bool Rewind(int64_t /*length*/) { return false; }
};

// The residual stream of one piece's rows, [rows, d]: made by the first RunLower of a request, kept
// while the piece waits between stages, and used again for the request's next pieces.
class Residuals {
 public:
  virtual ~Residuals() = default;
};

// Memory K, V of one chunk, in the memory from which RunGroup reads.
struct ProjectedMemory {
  kernels::MemoryView view;            // in the memory of the backend's device
  const Bf16* pointer_keys = nullptr;  // with an adapter: model::CopiedChunk::keys, in RAM
  const Bf16* reader_rows = nullptr;   // with a reader: model::ReaderBlock::rows, in RAM
  std::shared_ptr<const void> owner;   // owns what `view` points to
  int64_t bytes = 0;                   // for the memory budget, which evicts only afterwards
};

// A chunk's states on their way to the backend's device.
class UploadedStates {
 public:
  virtual ~UploadedStates() = default;
};

struct ChunkToProject {
  const store::ChunkRecord* record = nullptr;
  const UploadedStates* uploaded = nullptr;  // of BeginUpload; null: none
  bool for_reader_alone = false;             // ProjectedMemory::reader_rows are all that is needed
};

// A landmark row that retrieves.
struct QueryRow {
  const PieceRows* piece = nullptr;
  int64_t row = 0;  // within the piece
  // [d_r], in RAM: receives the query without its lexical part. With an adapter [query_width],
  // CpuModel::RecallQuery; the piece then has the rows that ask, and `row` is the last of them.
  std::span<float> u;
  int64_t asking_rows = 0;  // with an adapter: the most that ask, the last; 0: all
  // With a reader: receives model::ReaderQuestion::rows, which are the last `question_rows`.
  std::vector<Bf16>* question = nullptr;
  int64_t question_rows = 0;
};

// Returns the first of the piece's rows that ask.
inline int64_t FirstAsking(const QueryRow& query) {
  return query.asking_rows == 0 ? 0 : std::max<int64_t>(0, query.row + 1 - query.asking_rows);
}

// Stages are called one at a time, by the scheduler's thread or, once that has stopped, by the
// thread that shuts the engine down. All other functions are thread-safe, also while a stage runs.
// When a stage returns, its arguments may be changed or freed at once. Objects made by a backend
// may be destroyed by any thread, also while a stage runs and after the backend.
//
// An error of a stage ends every piece it was given: RESOURCE_EXHAUSTED for memory, UNAVAILABLE for
// a device that is lost. The sequences of these pieces can then only be destroyed; other sequences
// are not affected.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda:0 NVIDIA H200"
  // UNAVAILABLE, permanently, once its device is lost.
  virtual absl::Status health() const { return absl::OkStatus(); }
  // The present room of its device; zeros if it uses RAM or its device is lost.
  virtual kernels::DeviceRoom room() const { return {}; }
  // Graph launches since start.
  virtual int64_t graph_launches() const { return 0; }

  // A new sequence, for PieceRows::sequence. REQUIRES: `patterns` are valid for the model.
  // INVALID_ARGUMENT, here and below: this backend does not support them.
  virtual absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      const model::LocalPatterns& patterns) = 0;
  // A new encoder for a document.
  virtual absl::StatusOr<std::unique_ptr<MemoryEncoder>> NewEncoder(
      const model::LocalPatterns& patterns) = 0;

  // Embeds the ids of each piece and runs its segments through the lower layers: advances the
  // states of the piece's sequence and leaves the rows in PieceRows::residuals.
  virtual absl::Status RunLower(std::span<PieceRows* const> pieces) = 0;

  // Encodes the chunks of PieceRows::closed, piece by piece, in order. The first rows_before rows
  // of a block are those that earlier calls kept in the sequence. Then keeps the piece's rows from
  // open_row on in the sequence for later pieces: appended to the kept rows if the piece closed no
  // block, otherwise replacing them. REQUIRES: landmarks; called once after each RunLower, for all
  // of its pieces.
  virtual absl::StatusOr<std::vector<model::EncodedChunk>> EncodeClosed(
      std::span<PieceRows* const> pieces) = 0;

  // Computes retrieval queries of `group` from the residuals on entry to it. REQUIRES: landmarks or
  // an adapter, here and for the next two.
  virtual absl::Status Queries(int group, std::span<const QueryRow> rows) = 0;

  // Begins to copy the states of records, all at once, to the device from which Project reads them;
  // one for each record. Thread-safe (not a stage). Empty if Project reads RAM, or on failure:
  // Project then copies them itself.
  virtual std::vector<std::shared_ptr<const UploadedStates>> BeginUpload(
      std::span<const store::ChunkRecord* const> /*records*/) {
    return {};
  }

  // Memory K, V of stored chunks, in their order; a chunk's bits do not depend on the others.
  virtual absl::StatusOr<std::vector<ProjectedMemory>> Project(
      std::span<const ChunkToProject> chunks) = 0;

  // Runs the layers of `group` over the pieces' residuals, in place. A segment reads
  // `memory->groups[group].retrieved`; if that is null or empty, it reads no memory.
  virtual absl::Status RunGroup(std::span<PieceRows* const> pieces, int group) = 0;

  // Returns what the adapter's reader says of the question's blocks. REQUIRES: it has one.
  virtual absl::StatusOr<model::Reading> Read(const model::ReaderQuestion& question) = 0;

  // Returns the scores that the adapter's reranker gives the lines of each text. REQUIRES: it has
  // one.
  virtual std::vector<std::vector<float>> Rerank(std::span<const model::RerankerText> texts) = 0;

  // Computes the logits of each row of PieceRows::head and passes them to PieceRows::consume, or
  // the token chosen from them to PieceRows::choose (rows.h). These are called on any thread, or on
  // several at once.
  virtual absl::Status RunHead(std::span<PieceRows* const> pieces) = 0;
};

}  // namespace recollect::engine
