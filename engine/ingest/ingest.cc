#include "engine/ingest/ingest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/ingest/resume_state.h"
#include "store/hash_text.h"

namespace recollect::engine {
namespace {

constexpr int64_t kHashedTokens = int64_t{1} << 20;  // at once

// Of the input up to the last commit, which is what the store has of it.
absl::StatusOr<std::string> HashInput(store::DocumentStore& store,
                                      const store::IngestProgress& progress) {
  const int64_t length = progress.input_offset;
  if (length == 0) return "";
  Sha256 hash;
  if (!progress.from_tokens) {
    RETURN_IF_ERROR(store::HashText(store, progress.owner, length, hash));
    return hash.Hex();
  }
  for (int64_t begin = 0; begin < length; begin += kHashedTokens) {
    ASSIGN_OR_RETURN(
        const std::vector<int32_t> tokens,
        store.ReadTokens(progress.owner, begin, std::min(length, begin + kHashedTokens)));
    hash.Update({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(int32_t)});
  }
  return hash.Hex();
}

}  // namespace

absl::StatusOr<std::shared_ptr<IngestJob>> IngestJob::Create(const IngestContext& context,
                                                             const model::LocalPatterns& pattern,
                                                             const store::IngestProgress& progress,
                                                             IngestQuota quota,
                                                             std::optional<std::string> metadata) {
  ResumeState state;
  if (!progress.resume_state.empty()) {
    ASSIGN_OR_RETURN(state, DecodeResumeState(progress.resume_state));
  }
  RETURN_IF_ERROR(CheckResumeState(state, progress, context.model.config().vocab_size));
  DecidedTokens pending{std::move(state.pending_ids), std::move(state.pending_bytes), "",
                        progress.input_offset};
  TokenQueue queue(progress.from_tokens, state.tokens, state.text_end, progress.bytes,
                   std::move(pending));
  std::unique_ptr<MemoryEncoder> encoder;
  if (context.model.config().documents() != DocumentKind::kText) {
    ASSIGN_OR_RETURN(encoder, context.backend.NewEncoder(pattern));
  }
  std::shared_ptr<IngestJob> job(new IngestJob(context, std::move(encoder), progress,
                                               std::move(queue), std::move(quota),
                                               std::move(metadata)));
  RETURN_IF_ERROR(job->Restore(state, progress));
  const int64_t before = std::min(progress.tokens, job->reach_);
  ASSIGN_OR_RETURN(job->before_, context.store.ReadTokens(progress.owner, progress.tokens - before,
                                                          progress.tokens));
  if (const int64_t segment = context.model.config().adapter.segment_tokens; segment > 0) {
    const int64_t begin = progress.tokens - progress.tokens % segment;
    ASSIGN_OR_RETURN(job->open_segment_,
                     context.store.ReadTokens(progress.owner, begin, progress.tokens));
  }
  ASSIGN_OR_RETURN(job->committed_sha256_, HashInput(context.store, progress));
  return job;
}

IngestJob::IngestJob(const IngestContext& context, std::unique_ptr<MemoryEncoder> encoder,
                     const store::IngestProgress& progress, TokenQueue queue, IngestQuota quota,
                     std::optional<std::string> metadata)
    : context_(context),
      id_(progress.id),
      owner_(progress.owner),
      replaces_(progress.replaces),
      from_tokens_(progress.from_tokens),
      kind_(context.model.config().documents()),
      reach_(context.model.config().pointer.reach),
      quota_(std::move(quota)),
      metadata_(std::move(metadata)),
      reader_(context.model, progress.input_offset),
      encoder_(std::move(encoder)),
      accepted_offset_(progress.input_offset),
      committed_offset_(progress.input_offset),
      chunks_(progress.chunks),
      tokens_before_(progress.tokens),
      queue_(std::move(queue)) {}

IngestStatus IngestJob::status() const {
  MutexLock lock(mutex_);
  return StatusLocked();
}

IngestStatus IngestJob::StatusLocked() const {
  IngestStatus status;
  status.committed_sha256 = committed_sha256_;
  status.committed_offset = committed_offset_;
  status.accepted_offset = accepted_offset_;
  status.bytes = queue_.text_end();
  status.tokens = queue_.encoded();
  status.chunks = chunks_;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  status.tokens_per_s =
      seconds > 0 ? static_cast<double>(queue_.encoded() - tokens_before_) / seconds : 0;
  return status;
}

bool IngestJob::published() const {
  MutexLock lock(mutex_);
  return published_;
}

bool IngestJob::failed() const {
  MutexLock lock(mutex_);
  return !failed_.ok();
}

absl::Status IngestJob::CheckAnsweredLocked() const {
  if (!append_done_ && !commit_done_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(commit_done_ ? "the commit" : "the piece that ends", " at offset ",
                   accepted_offset_, " is not answered yet"));
}

absl::Status IngestJob::Accept(int64_t offset, int64_t size, bool tokens, AppendDone& done) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(failed_);
  if (finishing_) return absl::FailedPreconditionError("the stream was finished");
  if (tokens != from_tokens_) {
    return absl::InvalidArgumentError(absl::StrCat("this ingest takes ",
                                                   from_tokens_ ? "token ids" : "text", ", not ",
                                                   tokens ? "token ids" : "text"));
  }
  RETURN_IF_ERROR(CheckAnsweredLocked());
  if (offset != accepted_offset_) {
    return absl::InvalidArgumentError(
        absl::StrCat("piece.offset: ", offset, ", expected ", accepted_offset_));
  }
  if (quota_.account != nullptr) {
    const int64_t bytes = tokens ? queue_.text_end() : offset + size;
    RETURN_IF_ERROR(quota_.account->CheckBytes(bytes, quota_.bytes));
  }
  accepted_offset_ += size;
  append_done_ = std::move(done);
  append_tokens_.reset();
  return absl::OkStatus();
}

// Callers may hold locks that their callback takes too: it never runs inside their call.
template <typename Done>
void IngestJob::Refuse(Done done, absl::Status status) {
  const auto tell = [done = std::move(done), status = std::move(status)] { done(status); };
  if (!context_.thread->Post(tell)) tell();
}

void IngestJob::Append(int64_t offset, std::string text, AppendDone done) {
  const absl::Status status = Accept(offset, std::ssize(text), false, done);
  if (!status.ok()) return Refuse(std::move(done), status);
  Post({std::move(text), {}, false});
}

void IngestJob::AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) {
  const absl::Status status = Accept(offset, std::ssize(tokens), true, done);
  if (!status.ok()) return Refuse(std::move(done), status);
  Post({"", std::move(tokens), false});
}

void IngestJob::Commit(AppendDone done) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = failed_;
    if (status.ok() && finishing_) {
      status = absl::FailedPreconditionError("the stream was finished");
    }
    if (status.ok()) status = CheckAnsweredLocked();
    if (status.ok()) commit_done_.swap(done);
  }
  if (!status.ok()) return Refuse(std::move(done), status);
  const bool posted = context_.thread->Post([self = shared_from_this()] {
    self->SettleCommit();
    self->GoOn();
  });
  if (!posted) Fail(absl::UnavailableError("the engine is shutting down"));
}

void IngestJob::Finish(FinishDone done) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = failed_;
    if (status.ok() && finishing_) {
      status = absl::FailedPreconditionError("the stream was finished before");
    }
    if (status.ok() && commit_done_) status = CheckAnsweredLocked();
    if (status.ok()) {
      finishing_ = true;
      finish_done_.swap(done);
    }
  }
  if (!status.ok()) return Refuse(std::move(done), status);
  Post({"", {}, true});
}

void IngestJob::Post(Message message) {
  auto shared = std::make_shared<Message>(std::move(message));
  const bool posted = context_.thread->Post(
      [self = shared_from_this(), shared] { self->Read(std::move(*shared)); });
  if (!posted) Fail(absl::UnavailableError("the engine is shutting down"));
}

void IngestJob::Read(Message message) {
  const auto push = [this](DecidedTokens part) {
    {
      const MemoryScope scope(MemoryScope::kTake);  // the queue is whole, or it is of no use
      MutexLock lock(mutex_);
      if (!failed_.ok()) return;
      queue_.Push(std::move(part));
    }
    if (kind_ != DocumentKind::kText) context_.wake();
  };
  absl::Status status = OrExhausted("reading the input", [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckMemory());
    if (message.final) RETURN_IF_ERROR(ReadOpenEnd(push));
    if (!from_tokens_) return reader_.ReadText(message.text, message.final, push);
    ASSIGN_OR_RETURN(DecidedTokens tokens, reader_.ReadTokens(std::move(message.tokens)));
    push(std::move(tokens));
    return absl::OkStatus();
  });
  bool empty = false, cut_short = false, nothing_kept;
  {
    MutexLock lock(mutex_);
    nothing_kept = failed_.ok() && committed_offset_ == 0;
    if (failed_.ok() && message.final) {
      empty = status.ok() && queue_.decided() == 0;
      cut_short = prefix() && status.ok() && !empty && queue_.encoded() == queue_.decided();
      all_read_ = status.ok() && !empty && !cut_short;
    }
    if (!message.final) append_tokens_ = queue_.decided() - HeldBack();
    if (status.ok()) status = failed_;
  }
  if (cut_short) {
    status = absl::InvalidArgumentError(
        absl::StrCat("document \"", id_, "\" ends where its unfinished ingest was committed, but ",
                     "that read more: delete the unfinished document to start again"));
  }
  if (empty) {
    status = absl::InvalidArgumentError(absl::StrCat("document \"", id_, "\" has no tokens"));
  }
  if (!status.ok()) {
    // Before its caller hears of the end. One that had failed before may be another's by now.
    if (nothing_kept) context_.store.AbandonIngest(id_).IgnoreError();
    return Fail(status);
  }
  Settle();
  GoOn();
}

absl::Status IngestJob::ReadOpenEnd(const InputReader::Sink& push) {
  {
    MutexLock lock(mutex_);
    if (!MayKeepAppendPoint()) return absl::OkStatus();
  }
  if (!from_tokens_) RETURN_IF_ERROR(reader_.DecideAll(push));
  MutexLock lock(mutex_);
  open_end_ = queue_.decided();
  return absl::OkStatus();
}

void IngestJob::Settle() {
  AppendDone done;
  IngestStatus status;
  {
    MutexLock lock(mutex_);
    if (!append_done_ || !append_tokens_ || !IsEncodedLocked(*append_tokens_)) return;
    std::swap(done, append_done_);
    status = StatusLocked();
  }
  done(status);
}

void IngestJob::Fail(const absl::Status& status) {
  AppendDone append_done, commit_done;
  FinishDone finish_done;
  {
    MutexLock lock(mutex_);
    if (failed_.ok()) failed_ = status;
    std::swap(append_done, append_done_);
    std::swap(commit_done, commit_done_);
    std::swap(finish_done, finish_done_);
  }
  if (append_done) append_done(status);
  if (commit_done) commit_done(status);
  if (finish_done) finish_done(status);
}

}  // namespace recollect::engine
