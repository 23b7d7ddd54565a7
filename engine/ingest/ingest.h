// The ingest of a document into the form in which the model keeps it (ModelConfig::documents).
// Input is read and tokenised on the ingest thread, encoded in slices by the scheduler, and
// committed on the ingest thread again. The three overlap. The ingest thread itself cuts a document
// that is kept as text into blocks: such an ingest waits for no step of the layers, and no step
// waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "engine/ingest/ingest_answers.h"
#include "engine/ingest/ingest_commit.h"
#include "engine/ingest/ingest_context.h"
#include "engine/ingest/ingest_encode.h"
#include "engine/ingest/ingest_input.h"
#include "engine/ingest/ingest_quota.h"
#include "engine/step/slice_source.h"
#include "engine/streams.h"
#include "store/document_store.h"

namespace recollect::engine {

// Joins the reader of input, the encoder and the commits: it has the mutex and posts to the
// threads. The parts know neither mutex nor threads. Thread-safe.
class IngestJob final : public IngestStream,
                        public SliceSource,
                        public RequestHandle,
                        public std::enable_shared_from_this<IngestJob> {
 public:
  // Makes a job that continues from `progress`, the store's record of this ingest. Fails like
  // SliceEncoder::Create. `metadata`: IngestBatch::metadata of the publication.
  static absl::StatusOr<std::shared_ptr<IngestJob>> Create(
      const IngestContext& context, const model::LocalPatterns& pattern,
      const store::IngestProgress& progress, IngestQuota quota = {},
      std::optional<std::string> metadata = {});

  IngestStatus status() const override;
  void Append(int64_t offset, std::string text, AppendDone done) override;
  void AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) override;
  void Commit(AppendDone done) override;
  void Finish(FinishDone done) override;
  std::shared_ptr<RequestHandle> handle() const override {
    return std::const_pointer_cast<IngestJob>(shared_from_this());
  }

  // Ends the job with `status`, which waiting and later calls receive. What was committed stays.
  void Fail(const absl::Status& status);
  void Cancel() override { Fail(absl::CancelledError("cancelled by the client")); }
  OwnerId owner() const { return begun_.owner; }
  bool published() const;
  bool failed() const;
  // Commits what is encoded. REQUIRES: the scheduler has stopped.
  void CommitRest();

  bool HasSlice() override;
  bool pauses() const override { return encoder_->pauses(); }
  void RunSlice(int64_t most_tokens, const ThreadPool::Pause& pause) override;

 private:
  IngestJob(const IngestContext& context, store::IngestProgress begun, IngestQuota quota,
            std::optional<std::string> metadata, TokenQueue queue,
            std::unique_ptr<SliceEncoder> encoder, std::string committed_sha256);

  // On the caller's thread. Moves from `done` if it accepts the piece.
  absl::Status Accept(int64_t offset, int64_t size, bool tokens, AppendDone& done);
  void PostPiece(InputPiece piece);
  template <typename Work>
  void Post(Work work);

  // On the ingest thread.
  void Read(InputPiece piece);
  absl::Status Decide(InputPiece piece);
  // Starts the pending work: wakes the scheduler or, for text, does it here.
  void GoOn();
  void SettleCommit();  // answers the commit that was asked for if nothing is left to commit
  void Write(store::IngestBatch batch);
  void Publish(store::IngestBatch batch);

  // On the thread that encodes.
  bool MayRead() const;  // whether the API key may still ingest tokens in this minute
  void EncodeSlice(int64_t most_tokens, const ThreadPool::Pause& pause);
  absl::Status Encode(int64_t most_tokens, const ThreadPool::Pause& pause);
  IngestSlice TakeSlice(int64_t most_tokens);
  void Settle();  // answers the piece if its tokens are encoded; also on the ingest thread

  bool text() const { return context_.model.config().documents() == DocumentKind::kText; }
  bool prefix() const { return context_.model.config().documents() == DocumentKind::kPrefix; }

  IngestStatus StatusLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndInputLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  IngestSlice SliceLocked(int64_t most_tokens) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether no complete block is left to encode among the document's first `tokens` tokens.
  bool IsEncodedLocked(int64_t tokens) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllEncodedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CommitIsWantedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWorkLocked(bool may_read) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // These serialise the state of the layers, on the thread that encodes. After an error of it the
  // job ends with that, and nothing is returned or started.
  std::optional<std::string> LocalStateLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeAppendPointLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartDueCommitLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartCommitLocked(bool last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const IngestContext context_;
  const store::IngestProgress begun_;  // what the store had at first, but for the resume state
  const IngestQuota quota_;
  const std::string committed_sha256_;  // IngestStatus::committed_sha256
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();

  // Each part has one side that works without the mutex, on its own thread:
  InputReader reader_;                           // the ingest thread
  const std::unique_ptr<SliceEncoder> encoder_;  // the thread that encodes; see SliceEncoder
  const CommitWriter writer_;                    // the ingest thread
  // ... and one that the others see, under it. No caller, store or layer is called under it, but
  // for the serialising of the layers' state, which has to be that of the queue's place.
  mutable Mutex mutex_;
  TokenQueue queue_ ABSL_GUARDED_BY(mutex_);
  PendingCommit pending_ ABSL_GUARDED_BY(mutex_);
  IngestAnswers answers_ ABSL_GUARDED_BY(mutex_);
  // Whether a document that is kept as text waits until its account may read on.
  bool waits_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace recollect::engine
