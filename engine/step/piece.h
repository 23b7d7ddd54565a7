// A piece: consecutive rows of one session that run through the model together, and their progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/session/session.h"
#include "engine/session/tiers.h"
#include "engine/step/asked_questions.h"
#include "engine/types.h"

namespace recollect::engine {

// The chunks that one landmark of the piece selected for the group now being retrieved.
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
  // With an adapter: where in `chosen` those are that were found, best first (Recalled::found).
  std::vector<size_t> found;
  float nothing = 0;         // with an adapter: what the weights of the used ones leave to 1
  std::vector<Chosen> more;  // what only its reader reads
};

// Owned by a request, whose session plans the rows; advanced by StepRunner on the scheduler's
// thread. A backend sees only the PieceRows.
struct Piece : PlannedRows {
  int64_t hits_per_group = 0;  // 0: n_ret
  bool with_retrievals = false;
  bool with_queries = false;
  // With a judge: the user's message, and then its parts if it asks several things. The judge says
  // what they are answered with, before the layers run that read documents. Borrowed; empty:
  // nothing is asked.
  std::span<const AskedQuestion> questions;
  // Whether the piece ends where a quote is chosen: no layer runs for it any more, and what has run
  // serves for nothing but Session::Rewind.
  bool ends_with_quote = false;
  // With an adapter: the most rows before the answer that are the question's. If by these alone no
  // document is needed, none is read. 0: there is no question.
  int64_t question_rows = 0;

  // Set by Begin.
  Session* session = nullptr;
  std::weak_ptr<void> owner;  // kept alive by a running fetch
  int stage = 0;              // 0: lower layers; 1 + g: group g; then the head; then done
  absl::Status status;        // an error ends the piece
  std::vector<Selection> selections;
  std::vector<WantedChunk> wanted;          // while a fetch runs, it belongs to that
  std::vector<Retrieval> retrievals;        // when wanted
  std::vector<std::vector<float>> queries;  // of the last landmark in each group, when wanted
  // For each question, when asked for; none if the reader reads no block.
  std::vector<JudgedCandidates> judged;
  bool quoted = false;  // whether the piece has ended with a quote

  // The slowest tier of the chunks that the model reads; kMemory if it reads none.
  Tier slowest = Tier::kMemory;

  // Whether the piece is cut from the step until a fetch has ended.
  bool waiting = false;
  absl::Status fetch_status;  // written before fetch_done
  std::atomic<bool> fetch_done{false};

  // Resets the progress, before each plan. Keeps allocated memory.
  void Begin(Session* of, std::weak_ptr<void> owned_by) {
    session = of;
    owner = std::move(owned_by);
    stage = 0;
    status = absl::OkStatus();
    selections.clear();
    wanted.clear();
    retrievals.clear();
    slowest = Tier::kMemory;
    queries.clear();
    judged.clear();
    quoted = false;
  }
};

}  // namespace recollect::engine
