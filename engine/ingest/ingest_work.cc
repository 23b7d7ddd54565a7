// What an ingest job does beside its caller: slices and commits.
#include <memory>
#include <utility>

#include "base/memory.h"
#include "base/status.h"
#include "engine/ingest/ingest.h"

namespace recollect::engine {
namespace {

// Of a document that is kept as text, between two looks at what its account may read: a few
// milliseconds.
constexpr int64_t kTextSliceTokens = 4096;

}  // namespace

// At least one block, if the end of any is decided.
IngestSlice IngestJob::SliceLocked(int64_t most_tokens) const {
  if (!answers_.ok() || answers_.stage >= IngestStage::kPublishing) return {};
  if (queue_.encoded() == queue_.decided()) return {};
  // One commit may be on its way while the next one gathers, not more. One of a prefix reads the
  // state itself.
  if (pending_.running() && (prefix() || pending_.IsFull(queue_))) return {};
  return NextSlice(context_.model, queue_, answers_.stage == IngestStage::kAllRead,
                   pending_.pause(), most_tokens);
}

bool IngestJob::AllEncodedLocked() const {
  return answers_.ok() && answers_.stage == IngestStage::kAllRead &&
         queue_.encoded() == queue_.decided();
}

bool IngestJob::CommitIsWantedLocked() const {
  return answers_.ok() && answers_.callers.commit && !pending_.running() &&
         queue_.uncommitted() > 0;
}

bool IngestJob::HasWorkLocked(bool may_read) const {
  return (may_read && SliceLocked(/*most_tokens=*/1).tokens > 0) || AllEncodedLocked() ||
         CommitIsWantedLocked();
}

bool IngestJob::MayRead() const {
  return quota_.account == nullptr || quota_.account->CheckTokens().ok();
}

// One whose account has read too much waits, and its caller with it; the scheduler asks again. That
// is all that it does for a document that is kept as text.
bool IngestJob::HasSlice() {
  const bool may_read = MayRead();
  MutexLock lock(mutex_);
  return text() ? may_read && waits_ : HasWorkLocked(may_read);
}

void IngestJob::RunSlice(int64_t most_tokens, const ThreadPool::Pause& pause) {
  if (!text()) return EncodeSlice(most_tokens, pause);
  {
    MutexLock lock(mutex_);
    waits_ = false;
  }
  context_.thread->Post([self = shared_from_this()] { self->GoOn(); });
}

void IngestJob::GoOn() {
  if (!text()) return context_.wake();
  while (true) {
    const bool may_read = MayRead();
    {
      MutexLock lock(mutex_);
      waits_ = !may_read && SliceLocked(/*most_tokens=*/1).tokens > 0;
      if (waits_ && CommitIsWantedLocked()) StartCommitLocked(/*last=*/false);
      if (waits_ || !HasWorkLocked(may_read)) return;
    }
    EncodeSlice(kTextSliceTokens, /*pause=*/nullptr);
  }
}

void IngestJob::EncodeSlice(int64_t most_tokens, const ThreadPool::Pause& pause) {
  const absl::Status encoded = OrExhausted("an ingest", [&] { return Encode(most_tokens, pause); });
  encoded.ok() ? Settle() : Fail(encoded);
}

absl::Status IngestJob::Encode(int64_t most_tokens, const ThreadPool::Pause& pause) {
  RETURN_IF_ERROR(CheckMemory());
  const IngestSlice slice = TakeSlice(most_tokens);
  if (slice.tokens == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(EncodedSlice encoded, encoder_->Encode(slice, pause));
  context_.counters.ingested_tokens += slice.tokens;
  if (quota_.account != nullptr) quota_.account->SpendTokens(slice.tokens);
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(answers_.ended);
  pending_.Add(std::move(encoded));
  queue_.MarkEncoded(slice.tokens);
  StartDueCommitLocked();
  return absl::OkStatus();
}

IngestSlice IngestJob::TakeSlice(int64_t most_tokens) {
  MutexLock lock(mutex_);
  TakeAppendPointLocked();
  IngestSlice slice = SliceLocked(most_tokens);
  slice.Fill(queue_);
  if (slice.tokens == 0) StartDueCommitLocked();
  return slice;
}

std::optional<std::string> IngestJob::LocalStateLocked() {
  absl::StatusOr<std::string> state = encoder_->LocalState();
  if (state.ok()) return *std::move(state);
  answers_.ended = state.status();  // at once; who waits is told without the mutex
  context_.thread->Post([self = shared_from_this(), why = state.status()] { self->Fail(why); });
  return std::nullopt;
}

// Once all blocks are encoded that later input cannot change.
void IngestJob::TakeAppendPointLocked() {
  const std::optional<int64_t> pause = pending_.pause();
  if (!answers_.ok() || answers_.stage != IngestStage::kAllRead || !pause.has_value()) return;
  if (!IsEncodedLocked(*pause)) return;
  const std::optional<std::string> local_state = LocalStateLocked();
  if (local_state.has_value()) pending_.TakeAppendPoint(queue_, *local_state);
}

void IngestJob::StartDueCommitLocked() {
  TakeAppendPointLocked();
  if (!answers_.ok()) return;
  if (AllEncodedLocked()) {
    StartCommitLocked(/*last=*/true);
  } else if (CommitIsWantedLocked() || (!pending_.running() && pending_.IsFull(queue_))) {
    StartCommitLocked(/*last=*/false);
  }
}

void IngestJob::StartCommitLocked(bool last) {
  std::optional<std::string> local_state;
  if (last) {
    answers_.stage = IngestStage::kPublishing;
  } else {
    local_state = LocalStateLocked();
    if (!local_state.has_value()) return;
  }
  auto batch = std::make_shared<store::IngestBatch>(pending_.Take(queue_, std::move(local_state)));
  context_.thread->Post([self = shared_from_this(), batch, last] {
    const absl::Status written = OrExhausted("writing a document", [&] {
      const MemoryScope scope(MemoryScope::kTake);  // nothing is half-written
      last ? self->Publish(std::move(*batch)) : self->Write(std::move(*batch));
      return absl::OkStatus();
    });
    if (!written.ok()) self->Fail(written);
  });
}

void IngestJob::Write(store::IngestBatch batch) {
  const absl::Status status = writer_.Commit(*encoder_, batch);
  if (!status.ok()) return Fail(status);
  {
    MutexLock lock(mutex_);
    pending_.Committed(batch.input_offset);
  }
  SettleCommit();
  GoOn();
}

void IngestJob::SettleCommit() {
  AppendDone done;
  IngestStatus status;
  {
    MutexLock lock(mutex_);
    if (!answers_.callers.commit || pending_.running() || queue_.uncommitted() > 0) return;
    std::swap(done, answers_.callers.commit);
    status = StatusLocked();
  }
  done(status);
}

void IngestJob::Publish(store::IngestBatch batch) {
  const absl::Status state = encoder_->WriteState(batch);
  const int64_t offset = batch.input_offset;
  IngestAnswers::FinishDone done;
  {
    MutexLock lock(mutex_);
    // A stream that was given up meanwhile is not published behind its owner's back.
    if (!answers_.ok()) return;
    std::swap(done, answers_.callers.finish);
  }
  const absl::StatusOr<store::DocumentInfo> info = writer_.Publish(state, std::move(batch));
  {
    MutexLock lock(mutex_);
    answers_.ended = info.ok() ? absl::FailedPreconditionError("the document is published")
                               : Annotate(info.status(), "publish");
    if (info.ok()) pending_.Committed(offset);
    if (info.ok()) answers_.stage = IngestStage::kPublished;
  }
  if (info.ok()) context_.published(info->id, begun_.replaces);
  if (done) done(info);
}

void IngestJob::CommitRest() {
  MutexLock lock(mutex_);
  if (answers_.ok() && answers_.stage < IngestStage::kPublishing && queue_.uncommitted() > 0) {
    StartCommitLocked(/*last=*/false);
  }
}

}  // namespace recollect::engine
