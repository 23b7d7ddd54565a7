// The durable side of an ingest job: what a commit holds and leaves for later, and publishing.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/ingest/ingest.h"
#include "engine/ingest/resume_state.h"
#include "engine/session/prefix_state.h"

namespace recollect::engine {
namespace {

// Fewer tokens are read again when a document is appended to.
constexpr int64_t kLeastAppendTokens = 1024;
// An append point's state of the layers has at most this part of the bytes of the chunk states.
constexpr int64_t kAppendStateShare = 2;

// Another writer is ABORTED, and worth another try, only when a stream begins. Later the document
// was deleted or taken over, and who tried again would undo that.
absl::Status Lasting(const absl::Status& status) {
  return absl::IsAborted(status) ? absl::FailedPreconditionError(status.message()) : status;
}

}  // namespace

absl::Status IngestJob::Restore(const ResumeState& state, const store::IngestProgress& progress) {
  if (kind_ == DocumentKind::kText) {
    if (state.local_state.empty()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("resume state has ", state.local_state.size(),
                                            " bytes of layers, of a document that none reads"));
  }
  if (!state.local_state.empty()) {
    return encoder_->Restore(state.local_state, progress.tokens + progress.chunks);
  }
  if (progress.state_bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      model::LocalState local,
      RestoreState(context_.model, encoder_->patterns(), context_.store,
                   {owner_, progress.state_bytes, state.tokens}, context_.state_budget, charge_));
  RETURN_IF_ERROR(encoder_->Begin(std::move(local)));
  context_.state_budget.Set(charge_, encoder_->bytes());
  return absl::OkStatus();
}

// A commit of a prefix writes its whole state: the longer it is, the rarer, so that all of them
// together write a few times what the last one does. Text costs next to nothing to read again.
int64_t IngestJob::CommitAfterLocked() const {
  switch (kind_) {
    case DocumentKind::kChunks:
      return context_.commit_tokens;
    case DocumentKind::kPrefix:
      return std::max(context_.commit_tokens, queue_.committed() / 4);
    case DocumentKind::kText:
      return context_.text_commit_tokens;
  }
  return context_.commit_tokens;
}

bool IngestJob::CommitIsDueLocked() const {
  return !committing_ && queue_.uncommitted() >= CommitAfterLocked();
}

bool IngestJob::CommitIsWantedLocked() const {
  return failed_.ok() && commit_done_ && !committing_ && queue_.uncommitted() > 0;
}

void IngestJob::SettleCommit() {
  AppendDone done;
  IngestStatus status;
  {
    MutexLock lock(mutex_);
    if (!commit_done_ || committing_ || queue_.uncommitted() > 0) return;
    std::swap(done, commit_done_);
    status = StatusLocked();
  }
  done(status);
}

// A prefix keeps none: it would be a second state as large as the document's.
bool IngestJob::MayKeepAppendPoint() const {
  return !prefix() && queue_.decided() >= kLeastAppendTokens;
}

bool IngestJob::KeepsLocalState() const {
  return kind_ == DocumentKind::kChunks && !context_.model.config().has_adapter();
}

std::optional<std::string> IngestJob::TakeLocalState() {
  if (!KeepsLocalState()) return "";
  absl::StatusOr<std::string> state = encoder_->Serialize();
  if (state.ok()) return *std::move(state);
  failed_ = state.status();  // at once; who waits is told without the mutex
  context_.thread->Post([self = shared_from_this(), status = failed_] { self->Fail(status); });
  return std::nullopt;
}

void IngestJob::TakeAppendPoint() {
  if (!failed_.ok() || publishing_ || !open_end_.has_value() || append_point_.has_value()) return;
  if (!all_read_ || BlocksLocked(*open_end_, /*final=*/false, /*most_tokens=*/1).tokens > 0) return;
  append_point_ = "";
  std::optional<std::string> local_state = TakeLocalState();
  if (!local_state.has_value()) return;
  // The state of the layers has one size; beside a short document's chunks it would be the larger
  // part.
  const int64_t chunk_states = queue_.encoded() * context_.model.config().state_width();
  const bool large = std::ssize(*local_state) > chunk_states / kAppendStateShare;
  if (chunks_ == 0 || (KeepsLocalState() && large)) return;
  TokenQueue::Place place = queue_.place();
  append_point_ = EncodeAppendPoint(
      {.chunks = chunks_,
       .bytes = place.text_end,
       .input_offset = place.input_offset,
       .resume_state = EncodeResumeState({.tokens = queue_.encoded(),
                                          .text_end = queue_.text_end(),
                                          .pending_ids = std::move(place.pending_ids),
                                          .pending_bytes = std::move(place.pending_bytes),
                                          .local_state = *std::move(local_state)})});
}

void IngestJob::StartCommit(bool last) {
  std::optional<std::string> local_state = "";
  if (!last) local_state = TakeLocalState();
  if (!local_state.has_value()) return;
  TokenQueue::Committed committed = queue_.Commit();
  auto batch = std::make_shared<store::IngestBatch>(std::exchange(batch_, {}));
  batch->tokens = std::move(committed.tokens);
  batch->text = std::move(committed.text);
  batch->input_offset = committed.place.input_offset;
  if (last) {
    publishing_ = true;
    batch->append_point = std::move(append_point_).value_or("");
  } else {
    committing_ = true;
    ResumeState state;
    state.tokens = queue_.encoded();
    state.text_end = queue_.text_end();
    state.pending_ids = std::move(committed.place.pending_ids);
    state.pending_bytes = std::move(committed.place.pending_bytes);
    state.local_state = *std::move(local_state);
    batch->resume_state = EncodeResumeState(state);
  }
  context_.thread->Post([self = shared_from_this(), batch, last] {
    const absl::Status written = OrExhausted("writing a document", [&] {
      const MemoryScope scope(MemoryScope::kTake);  // nothing is half-written
      last ? self->Publish(std::move(*batch)) : self->Write(std::move(*batch));
      return absl::OkStatus();
    });
    if (!written.ok()) self->Fail(written);
  });
}

// The scheduler leaves the encoder alone meanwhile (SliceLocked).
absl::Status IngestJob::WriteState(store::IngestBatch& batch) {
  if (!prefix()) return absl::OkStatus();
  ASSIGN_OR_RETURN(batch.state_bytes, PutState(*encoder_, context_.store, owner_));
  return absl::OkStatus();
}

void IngestJob::Write(store::IngestBatch batch) {
  absl::Status status = WriteState(batch);
  if (status.ok()) status = context_.store.CommitIngest(owner_, batch);
  status = Lasting(status);
  if (!status.ok()) {
    context_.counters.CountError(status);
    return Fail(Annotate(status, "commit"));
  }
  {
    MutexLock lock(mutex_);
    committing_ = false;
    committed_offset_ = batch.input_offset;
  }
  SettleCommit();
  GoOn();
}

void IngestJob::Publish(store::IngestBatch batch) {
  const absl::Status written = WriteState(batch);
  FinishDone done;
  {
    MutexLock lock(mutex_);
    // A stream that was given up meanwhile is not published behind its owner's back.
    if (!failed_.ok()) return;
    std::swap(done, finish_done_);
  }
  batch.metadata = metadata_;
  absl::StatusOr<store::DocumentInfo> info =
      written.ok() ? context_.store.PublishIngest(owner_, batch) : written;
  if (!info.ok()) info = Lasting(info.status());
  {
    MutexLock lock(mutex_);
    failed_ = info.ok() ? absl::FailedPreconditionError("the document is published")
                        : Annotate(info.status(), "publish");
    if (info.ok()) committed_offset_ = batch.input_offset;
    published_ = info.ok();
  }
  if (!info.ok()) context_.counters.CountError(info.status());
  if (info.ok()) context_.published(info->id, replaces_);
  if (done) done(info);
}

void IngestJob::CommitRest() {
  MutexLock lock(mutex_);
  if (failed_.ok() && !publishing_ && queue_.uncommitted() > 0) StartCommit(/*last=*/false);
}

}  // namespace recollect::engine
