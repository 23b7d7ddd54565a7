// One generation context: the local state of every layer, the block layout, the session's own
// chunks and what it mounts. Plans which rows run next; knows no threads and runs nothing itself.
//
// Layout of the flagship (design 2.1): [LMK] x_1..x_63 [LMK] x_64.. A landmark is placed at the
// start, before the token after a full block, when a block is flushed, and when a token is to be
// sampled after a full block; it predicts its block's first token. Where landmarks stand at the end
// of their block (DRT as published: x_1..x_63 [LMK] x_64..), one follows the token that fills a
// block at once, or a flush, and the token after it is predicted by the last token: so there is
// nothing before the first. A family without landmarks has tokens only: no blocks, and flushes do
// nothing.
#ifndef RECOLLECT_ENGINE_SESSION_H_
#define RECOLLECT_ENGINE_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend.h"
#include "engine/engine.h"
#include "engine/landmark_device.h"
#include "engine/mounts.h"
#include "engine/piece.h"
#include "engine/state_budget.h"
#include "engine/tiers.h"
#include "model/local_state.h"
#include "model/model.h"
#include "store/document_store.h"

namespace recollect::engine {

// Tokens waiting to be run, and after how many of them a block is flushed (ascending).
struct Input {
  std::vector<int32_t> tokens;
  std::vector<int64_t> flushes;
  size_t next_token = 0;
  size_t next_flush = 0;

  bool FlushIsNext() const {
    return next_flush < flushes.size() && flushes[next_flush] == static_cast<int64_t>(next_token);
  }
  bool done() const { return next_token == tokens.size() && next_flush == flushes.size(); }
  // Rows still to run, at most: each token and flush may bring a landmark.
  int64_t most_rows() const {
    return static_cast<int64_t>(2 * (tokens.size() - next_token) + (flushes.size() - next_flush)) +
           1;
  }
};

// Which rows need logits: none, the last one (to sample from), or every row that predicts a token
// of the input.
enum class HeadRows { kNone, kLast, kAll };

// Used by one thread at a time; info() by any.
class Session {
 public:
  // `sequence` is a new one. Model, store, tiers and device outlive the session.
  Session(const model::Model& model, store::DocumentStore& store, ChunkTiers& tiers,
          LandmarkDevice& landmark_device, const SessionOptions& options,
          std::unique_ptr<SequenceState> sequence, std::vector<Pin> mounts);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Puts the session behind a prefix: `state` has read all of it but the last token, which runs
  // with what comes first. Fails as SequenceState::Begin. REQUIRES: no landmarks, nothing planned.
  absl::Status Begin(model::LocalState state, int32_t last_token);

  // Takes rows from `input`, about `limit` of them (a landmark more, where one belongs to the last
  // row or sampling needs it), into `piece`, and moves the layout past them. The piece is empty
  // when there is nothing to run, or to predict from.
  void Plan(Input& input, int64_t limit, HeadRows head, Piece& piece);

  // Lets go of the chunks that the next row reads: a session that waits for its next request must
  // not keep them from being evicted. The next piece looks them up again.
  void DropMemory();

  // Candidates of a landmark, in order: mounted documents, then the first `own` chunks of its own.
  void Candidates(int64_t own, std::vector<KeyRun>& runs) const;
  struct Candidate {
    int mount = -1;  // -1: own
    ChunkRef ref;
  };
  Candidate Resolve(int64_t candidate) const;

  // Takes in the chunk of a block that this session closed, just encoded; they come in order.
  absl::Status AddChunk(const ClosedBlock& block, model::EncodedChunk chunk);
  // Frees what the session holds in the store; the object can only be destroyed afterwards. Blocks
  // on the disk.
  void FreeChunks();

  const std::vector<Pin>& mounts() const { return mounts_; }
  bool random_chunks() const { return random_chunks_; }
  int64_t positions() const { return positions_; }
  int64_t state_bytes() const { return sequence_->bytes(); }

  // A token that was sampled last, or ends the prefix, and has not been run: the next turn begins
  // with it.
  std::optional<int32_t> carry;
  // What the local state holds of the scheduler's budget.
  StateCharge state_charge;
  // Not OK once a step failed half-way: the layers no longer agree on a position, so nothing can
  // follow.
  absl::Status broken;

  SessionInfo info() const;

 private:
  bool BlockIsFull() const { return landmarks_ && open_tokens_ == chunk_tokens_; }
  void PlaceLandmark(Piece& piece);
  void PlaceToken(Piece& piece, int32_t id);
  void PlaceRow(Piece& piece, int32_t id);
  void CloseBlock(Piece& piece);
  // The last of recent_, at most `count`.
  std::vector<int32_t> Recent(int64_t count) const;

  const model::Model& model_;
  store::DocumentStore& store_;
  ChunkTiers& tiers_;
  LandmarkDevice& landmark_device_;
  const bool landmarks_;
  const bool at_end_;     // where they stand in their block
  const bool reads_own_;  // whether they read what they retrieved, or what the one before did
  const int64_t chunk_tokens_;
  const int64_t reach_;          // of lexical queries
  const int64_t pointer_reach_;  // 0: there is none
  const bool random_chunks_;
  const std::vector<Pin> mounts_;
  std::vector<std::string> mount_ids_;
  const std::unique_ptr<SequenceState> sequence_;

  std::atomic<int64_t> positions_{0};
  int64_t closed_blocks_ = 0;
  int64_t open_rows_ = 0, open_tokens_ = 0;  // of the open block; without landmarks, all
  // The last tokens, as many as a block and what the pointer sees before it, or a lexical query,
  // need.
  std::vector<int32_t> recent_;
  std::shared_ptr<LandmarkMemory> memory_;  // what the next row reads
  int64_t text_bytes_ = 0, block_text_begin_ = 0;

  std::optional<OwnerId> owner_;  // of the own chunks, from the first on
  std::atomic<int64_t> own_chunks_{0};
  std::unique_ptr<LandmarkKeys> own_keys_;  // of the own chunks, from the first on
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_SESSION_H_
