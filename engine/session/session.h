// A session is a generation context: the local state of every layer, the block layout, the
// session's own chunks and its mounts. It plans which rows run next; it has no threads and runs
// nothing itself.
//
// Layout of the flagship (design 2.1): [LMK] x_1..x_63 [LMK] x_64.. A landmark is placed at the
// start, before the token after a full block, when a block is flushed, and when a token is to be
// sampled after a full block; it predicts its block's first token. If landmarks end their block
// (DRT as published: x_1..x_63 [LMK] x_64..), a landmark immediately follows the token that fills a
// block, or a flush, and the last token predicts the token after the landmark; nothing predicts the
// first token. A family without landmarks has tokens only: no blocks, and flushes do nothing.
//
// With a memory adapter (ModelConfig::has_adapter) and documents mounted, a sequence has tokens
// only, too, and a flush recalls: the last chunk_tokens rows before it form the query, and they and
// all later rows read the blocks that are found. Such rows that have run before, without blocks or
// with those of an earlier flush, run again, so that the answer is the same as to the whole
// sequence as one prompt.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/landmark_index.h"
#include "engine/backend/rows.h"
#include "engine/session/mounts.h"
#include "engine/session/session_text.h"
#include "engine/session/state_budget.h"
#include "engine/session/tiers.h"
#include "engine/types.h"
#include "model/model.h"
#include "model/state/local_state.h"
#include "store/document_store.h"

namespace recollect::engine {

// Tokens waiting to be run, and the numbers of tokens after which a block is flushed (ascending).
struct Input {
  std::vector<int32_t> tokens;
  std::vector<int64_t> flushes;
  size_t next_token = 0;
  size_t next_flush = 0;
  // The token after `tokens`, which does not run; with HeadRows::kAll it is predicted, too.
  std::optional<int32_t> after = {};

  bool FlushIsNext() const {
    return next_flush < flushes.size() && flushes[next_flush] == static_cast<int64_t>(next_token);
  }
  bool done() const { return next_token == tokens.size() && next_flush == flushes.size(); }
  // The most rows still to run: each token and flush may add a landmark.
  int64_t most_rows() const {
    return static_cast<int64_t>(2 * (tokens.size() - next_token) + (flushes.size() - next_flush)) +
           1;
  }
};

// A landmark of a piece, which retrieves.
struct PieceLandmark {
  int64_t row = 0;
  int64_t own_candidates = 0;              // number of the session's own chunks searched
  std::vector<int32_t> recent;             // the tokens before it that its lexical query reads
  std::shared_ptr<LandmarkMemory> memory;  // receives its hits
  // The work of group 0's search for each later group, in order; or empty.
  std::vector<std::shared_ptr<const SearchAhead>> ahead = {};
};

struct PlannedRows : PieceRows {
  std::vector<PieceLandmark> landmarks;
};

// The rows that need logits: none, the last one (to sample from), or every row that predicts a
// token of the input.
enum class HeadRows { kNone, kLast, kAll };

// Used by one thread at a time; info() by any.
class Session {
 public:
  // `sequence` must be new; position_limit: 0: none. Model, store, tiers and device must outlive
  // the session.
  Session(const model::Model& model, store::SessionChunks& store, ChunkTiers& tiers,
          LandmarkIndex& landmark_index, const SessionOptions& options, int64_t position_limit,
          std::unique_ptr<SequenceState> sequence, std::vector<Pin> mounts);
  // Deletes the session's chunks from the store: blocks on the disk.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Starts the session after a prefix. `state` has read all of the prefix but its last token, which
  // runs with the session's first piece. Fails like SequenceState::Begin. REQUIRES: no landmarks,
  // nothing planned.
  absl::Status Begin(model::LocalState state, int32_t last_token);

  // Moves about `limit` rows from `input` to `piece` (and one more landmark if it belongs to the
  // last row or sampling needs it), and advances the layout past them. The piece is empty if there
  // is nothing to run or no row to predict from. Reuses the memory of an earlier plan.
  void Plan(Input& input, int64_t limit, HeadRows head, PlannedRows& piece);

  // Forgets the positions from `length` on, and the carried token. Returns false and changes
  // nothing if the layers cannot (SequenceState::Rewind). REQUIRES: 0 <= length <= positions().
  bool Rewind(int64_t length);
  // Returns all tokens run so far, in a family that can rewind; else nothing.
  std::span<const int32_t> read_tokens() const { return read_tokens_; }
  // Returns the first of these tokens, up to the first whose row has read a document.
  std::span<const int32_t> plain_tokens() const {
    return recalled_from_ < 0 ? read_tokens() : read_tokens().first(size_t(recalled_from_));
  }

  // Replaces the mounts, for another request. REQUIRES: an adapter, no row that has read documents.
  void Mount(std::vector<Pin> mounts, const SessionOptions& options);
  // Releases the mounts. Rows that have read them stay until Rewind to plain_tokens(), which
  // follows.
  void Unmount();

  // Releases the chunks that the next row reads: a session that waits for its next request must not
  // prevent their eviction. The next piece looks them up again.
  void DropMemory();

  // Sets `runs` to the candidates of a landmark, in order: mounted documents, then the session's
  // first `own` chunks.
  void Candidates(int64_t own, std::vector<KeyRun>& runs) const;
  struct Candidate {
    int mount = -1;  // -1: the session's own
    ChunkRef ref;
  };
  Candidate Resolve(int64_t candidate) const;

  // Adds the encoded chunk of a block that this session closed. Chunks are added in order.
  absl::Status AddChunk(const ClosedBlock& block, model::EncodedChunk chunk);

  // The landmark key of the chunk that was added last; empty before the first.
  const std::vector<Bf16>& last_key() const { return last_key_; }

  const std::vector<Pin>& mounts() const { return mounts_; }
  MountAs mount_as() const { return mount_as_; }
  int64_t text_tokens() const { return text_tokens_; }  // SessionOptions::text_tokens
  bool random_chunks() const { return random_chunks_; }
  int64_t positions() const { return positions_; }
  // Returns INVALID_ARGUMENT, naming the numbers, if `more` additional positions exceed the
  // session's limit (model::ModelConfig::PositionLimit).
  absl::Status CheckLimit(int64_t more) const;
  int64_t state_bytes() const { return sequence_->bytes() + text.bytes(); }

  // The last sampled token, or the prefix's last token, if it has not been run: the next piece
  // begins with it.
  std::optional<int32_t> carry;
  // The text of an open session, which its requests add to; empty without a tokenizer.
  SessionText text;
  // The share of the state budget: of the local state, and of `text`.
  StateCharge state_charge;
  // Not OK after a step has failed halfway: the layers' states are at different positions, so the
  // session cannot continue.
  absl::Status broken;

  SessionInfo info() const;

 private:
  // Returns whether flushes recall blocks of mounted documents.
  bool Recalls() const {
    return model_.config().has_adapter() && !mounts_.empty() && mount_as_ != MountAs::kText;
  }
  // Returns the number of rows that run before the rows of the next flush's query.
  int64_t RowsBeforeRecall(const Input& input, HeadRows head);
  // Places the rows of the query, also those that have run before. Returns false if there are none.
  bool PlaceRecall(Input& input, PlannedRows& piece);
  // Removes and returns the next token: of those that run again, or else of the input.
  int32_t TakeToken(Input& input);
  // Rewinds to `first`, if the layers can, and plans to run the later rows again.
  void RunAgain(int64_t first);

  bool BlockIsFull() const { return landmarks_ && open_tokens_ == chunk_tokens_; }
  void PlaceLandmark(PlannedRows& piece);
  void PlaceToken(PlannedRows& piece, int32_t id);
  void PlaceRow(PlannedRows& piece, int32_t id);
  void CloseBlock(PlannedRows& piece);
  // Returns the last tokens of recent_, at most `count`.
  std::vector<int32_t> Recent(int64_t count) const;

  const model::Model& model_;
  store::SessionChunks& store_;
  ChunkTiers& tiers_;
  LandmarkIndex& landmark_index_;
  const bool landmarks_;
  const bool rewinds_;
  const bool at_end_;     // whether landmarks end their block
  const bool reads_own_;  // whether landmarks read their own hits, or their predecessor's
  const int64_t chunk_tokens_;
  const int64_t reach_;          // of lexical queries
  const int64_t pointer_reach_;  // 0: there is none
  MountAs mount_as_;
  bool random_chunks_;
  int64_t text_tokens_;
  const int64_t position_limit_;  // 0: none
  std::vector<Pin> mounts_;
  std::vector<std::string> mount_ids_;
  const std::unique_ptr<SequenceState> sequence_;

  std::atomic<int64_t> positions_{0};
  int64_t predictor_ = -1;  // the planned row that predicts the next token; -1: none of this piece
  int64_t closed_blocks_ = 0;
  int64_t open_rows_ = 0, open_tokens_ = 0;  // of the open block; all rows without landmarks
  // The last tokens: enough for a block and the tokens before it that the pointer compares, and for
  // a lexical query.
  std::vector<int32_t> recent_;
  std::vector<int32_t> read_tokens_;
  int64_t recalled_from_ = -1;  // the first position that has read a document; -1: none has
  std::deque<int32_t> again_;   // tokens that run again before the input's
  std::shared_ptr<LandmarkMemory> memory_;  // read by the next row
  int64_t text_bytes_ = 0, block_text_begin_ = 0;

  std::optional<OwnerId> owner_;  // of the own chunks; set by the first
  std::atomic<int64_t> own_chunks_{0};
  std::unique_ptr<LandmarkKeys> own_keys_;  // of the own chunks; set by the first
  std::vector<Bf16> last_key_;
};

// Exclusive use of a session. The deleter gives it back: an open session to its table
// (SessionTable), a session of a single request to be freed or kept (PromptCache).
using SessionLease = std::unique_ptr<Session, std::function<void(Session*)>>;

}  // namespace recollect::engine
