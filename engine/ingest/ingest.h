// The ingest of a document into the form in which the model keeps it (ModelConfig::documents).
// Input is read and tokenised on the ingest thread, encoded in slices by the scheduler, and
// committed on the ingest thread again. The three overlap. The ingest thread itself cuts a document
// that is kept as text into blocks: such an ingest waits for no step of the layers, and no step
// waits for it.
#ifndef RECOLLECT_ENGINE_INGEST_INGEST_H_
#define RECOLLECT_ENGINE_INGEST_INGEST_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/executor.h"
#include "base/sync/mutex.h"
#include "engine/backend/backend.h"
#include "engine/backend/memory_encoder.h"
#include "engine/counters.h"
#include "engine/ingest/ingest_input.h"
#include "engine/ingest/ingest_quota.h"
#include "engine/ingest/resume_state.h"
#include "engine/session/state_budget.h"
#include "engine/step/scheduler.h"
#include "engine/streams.h"
#include "store/document_store.h"

namespace recollect::engine {

// The context that all ingests share. It must outlive them, except that calls after Fail do not use
// it.
struct IngestContext {
  const model::Model& model;
  Backend& backend;
  store::DocumentStore& store;
  std::shared_ptr<Executor> thread;  // of one thread: reads and commits depend on their order
  Counters& counters;
  StateBudget& state_budget;   // for states of prefixes
  std::function<void()> wake;  // the scheduler
  ChunkStatesFormat chunk_states_format;
  int64_t commit_tokens;
  int64_t text_commit_tokens;  // of documents that are kept as text
  int64_t max_ingests;
  // Called for each document, with the owner of the one that it has replaced, if any.
  std::function<void(const std::string& id, OwnerId replaced)> published;
};

// Thread-safe.
class IngestJob final : public IngestWork,
                        public RequestHandle,
                        public std::enable_shared_from_this<IngestJob> {
 public:
  using AppendDone = IngestStream::AppendDone;
  using FinishDone = std::function<void(absl::StatusOr<store::DocumentInfo>)>;

  // Makes a job that continues from `progress`, the store's record of this ingest. DATA_LOSS or
  // FAILED_PRECONDITION if it cannot be continued, RESOURCE_EXHAUSTED if the state so far does not
  // fit in the budget.
  // `metadata`: IngestBatch::metadata of the publication.
  static absl::StatusOr<std::shared_ptr<IngestJob>> Create(
      const IngestContext& context, const model::LocalPatterns& pattern,
      const store::IngestProgress& progress, IngestQuota quota = {},
      std::optional<std::string> metadata = {});

  IngestStatus status() const;
  void Append(int64_t offset, std::string text, AppendDone done);
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done);
  void Commit(AppendDone done);
  void Finish(FinishDone done);

  // Ends the job with `status`, which waiting and later calls receive. What was committed stays.
  void Fail(const absl::Status& status);
  void Cancel() override { Fail(absl::CancelledError("cancelled by the client")); }
  OwnerId owner() const { return owner_; }
  bool published() const;
  bool failed() const;
  // Commits what is encoded. REQUIRES: the scheduler has stopped.
  void CommitRest();

  bool HasSlice() override;
  void RunSlice(int64_t most_tokens) override;

 private:
  IngestJob(const IngestContext& context, std::unique_ptr<MemoryEncoder> encoder,
            const store::IngestProgress& progress, TokenQueue queue, IngestQuota quota,
            std::optional<std::string> metadata);

  struct Message {
    std::string text;
    std::vector<int32_t> tokens;
    bool final = false;
  };
  // The tokens to encode next: their number in each block, and in all blocks together.
  struct Slice {
    std::vector<int64_t> blocks;
    int64_t tokens = 0;
    // Set by TakeSlice.
    std::vector<int32_t> ids, bytes;  // [tokens]
    int64_t text_begin = 0;
  };

  absl::Status Restore(const ResumeState& state, const store::IngestProgress& progress);
  absl::Status CheckAnsweredLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves from `done` if it accepts the piece.
  absl::Status Accept(int64_t offset, int64_t size, bool tokens, AppendDone& done);
  template <typename Done>
  void Refuse(Done done, absl::Status status);
  void Post(Message message);
  void Read(Message message);
  // Starts the pending work: wakes the scheduler or, for text, does it here. On the ingest thread.
  void GoOn();
  bool MayRead() const;  // as far as the account has tokens
  void EncodeSlice(int64_t most_tokens);
  absl::Status Encode(int64_t most_tokens);
  Slice TakeSlice(int64_t most_tokens);
  absl::StatusOr<std::vector<model::EncodedChunk>> EncodeBlocks(const std::vector<Block>& blocks);
  // Runs the layers over the tokens of the open segment that an earlier stream has committed: the
  // store has their chunks, but not the state of the layers. A segment is short.
  absl::Status RunOpenSegment();
  // Makes the record of a chunk, except for its text range.
  store::ChunkRecord MakeRecord(Block block, model::EncodedChunk& chunk);
  void Settle();        // answers the piece if its tokens are encoded
  void SettleCommit();  // answers the commit that was asked for if nothing is left to commit
  // Tokens at the document's end that are not encoded: a prefix's last one runs in the session that
  // mounts it, so that it can predict the next token.
  int64_t HeldBack() const { return prefix() ? 1 : 0; }
  bool prefix() const { return kind_ == DocumentKind::kPrefix; }
  bool HasWorkLocked(bool may_read) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t CommitAfterLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartDueCommit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CommitIsDueLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CommitIsWantedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As many whole blocks of the document's first `end` tokens as `most_tokens` allow, at least one.
  Slice BlocksLocked(int64_t end, bool final, int64_t most_tokens) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool KeepsLocalState() const;  // in resume states and append points
  bool MayKeepAppendPoint() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes where the tokens end that later input cannot change.
  absl::Status ReadOpenEnd(const InputReader::Sink& push);
  // Takes the append point once all blocks are encoded that later input cannot change. Called by
  // the thread that owns the encoder, like the next two.
  void TakeAppendPoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The state of the layers, where a resumed ingest needs it. After an error, which the job ends
  // with, it is nothing.
  std::optional<std::string> TakeLocalState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartCommit(bool last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteState(store::IngestBatch& batch);
  void Write(store::IngestBatch batch);
  void Publish(store::IngestBatch batch);
  IngestStatus StatusLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Slice SliceLocked(int64_t most_tokens) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllEncodedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsEncodedLocked(int64_t tokens) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const IngestContext context_;
  const std::string id_;
  const OwnerId owner_, replaces_;  // IngestProgress::replaces
  const bool from_tokens_;
  const DocumentKind kind_;
  const int64_t reach_;  // of the pointer
  const IngestQuota quota_;
  const std::optional<std::string> metadata_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();

  InputReader reader_;  // ingest thread
  // Used by the thread that encodes; while a prefix is committed, by the commit. Null: the document
  // is kept as text.
  const std::unique_ptr<MemoryEncoder> encoder_;
  StateCharge charge_;            // thread that encodes
  std::string committed_sha256_;  // IngestStatus::committed_sha256
  std::vector<int32_t> before_;   // thread that encodes: the last reach_ tokens that are encoded
  // Used by the thread that encodes: the tokens of an adapter's open segment that an earlier stream
  // has committed.
  std::vector<int32_t> open_segment_;

  mutable Mutex mutex_;
  // Chunks and keys since the last commit.
  store::IngestBatch batch_ ABSL_GUARDED_BY(mutex_);
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  int64_t accepted_offset_ ABSL_GUARDED_BY(mutex_), committed_offset_ ABSL_GUARDED_BY(mutex_);
  int64_t chunks_ ABSL_GUARDED_BY(mutex_) = 0;
  const int64_t tokens_before_;  // before this stream
  TokenQueue queue_ ABSL_GUARDED_BY(mutex_);
  // The callback of the piece that is not answered yet; null: none.
  AppendDone append_done_ ABSL_GUARDED_BY(mutex_);
  // Set when that piece is read: it is answered when no complete block is left to encode among the
  // document's first `append_tokens_` tokens.
  std::optional<int64_t> append_tokens_ ABSL_GUARDED_BY(mutex_);
  AppendDone commit_done_ ABSL_GUARDED_BY(mutex_);  // of a commit that was asked for
  FinishDone finish_done_ ABSL_GUARDED_BY(mutex_);
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;  // Finish was called
  bool all_read_ ABSL_GUARDED_BY(mutex_) = false;   // queue_ holds all remaining tokens
  // Set with the end of the input, if the document may keep an append point: how many of its tokens
  // later input could not change. They are encoded before the rest.
  std::optional<int64_t> open_end_ ABSL_GUARDED_BY(mutex_);
  // Set once those are encoded; empty: none is kept.
  std::optional<std::string> append_point_ ABSL_GUARDED_BY(mutex_);
  bool publishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool published_ ABSL_GUARDED_BY(mutex_) = false;
  bool committing_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether a document that is kept as text waits until its account may read on.
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace recollect::engine

#endif  // RECOLLECT_ENGINE_INGEST_INGEST_H_
