#include "engine/ingest/ingest.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/ingest/resume_state.h"

namespace recollect::engine {
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
  ASSIGN_OR_RETURN(std::unique_ptr<SliceEncoder> encoder,
                   SliceEncoder::Create(context, pattern, state, progress));
  ASSIGN_OR_RETURN(std::string committed_sha256, HashInput(context.reader, progress));
  TokenQueue queue(
      progress.from_tokens, state.tokens, state.text_end, progress.bytes,
      {std::move(state.pending_ids), std::move(state.pending_bytes), "", progress.input_offset});
  store::IngestProgress begun = progress;
  begun.resume_state.clear();
  return std::shared_ptr<IngestJob>(new IngestJob(context, std::move(begun), std::move(quota),
                                                  std::move(metadata), std::move(queue),
                                                  std::move(encoder), std::move(committed_sha256)));
}

IngestJob::IngestJob(const IngestContext& context, store::IngestProgress begun, IngestQuota quota,
                     std::optional<std::string> metadata, TokenQueue queue,
                     std::unique_ptr<SliceEncoder> encoder, std::string committed_sha256)
    : context_(context),
      begun_(std::move(begun)),
      quota_(std::move(quota)),
      committed_sha256_(std::move(committed_sha256)),
      reader_(context.model, begun_.from_tokens, begun_.input_offset),
      encoder_(std::move(encoder)),
      writer_(context, begun_.owner, std::move(metadata)),
      queue_(std::move(queue)),
      pending_(context, begun_),
      answers_{.accepted_offset = begun_.input_offset} {}

IngestStatus IngestJob::status() const {
  MutexLock lock(mutex_);
  return StatusLocked();
}

IngestStatus IngestJob::StatusLocked() const {
  IngestStatus status;
  status.committed_sha256 = committed_sha256_;
  status.committed_offset = pending_.committed_offset();
  status.accepted_offset = answers_.accepted_offset;
  status.bytes = queue_.text_end();
  status.tokens = queue_.encoded();
  status.chunks = pending_.chunks();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  status.tokens_per_s =
      seconds > 0 ? static_cast<double>(queue_.encoded() - begun_.tokens) / seconds : 0;
  return status;
}

bool IngestJob::published() const {
  MutexLock lock(mutex_);
  return answers_.stage == IngestStage::kPublished;
}

bool IngestJob::failed() const {
  MutexLock lock(mutex_);
  return !answers_.ok();
}

absl::Status IngestJob::Accept(int64_t offset, int64_t size, bool tokens, AppendDone& done) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(answers_.CheckOpen());
  if (tokens != begun_.from_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("this ingest takes ",
                                                   begun_.from_tokens ? "token ids" : "text",
                                                   ", not ", tokens ? "token ids" : "text"));
  }
  RETURN_IF_ERROR(answers_.CheckPiece(offset));
  if (quota_.account != nullptr) {
    const int64_t bytes = tokens ? queue_.text_end() : offset + size;
    RETURN_IF_ERROR(quota_.account->CheckBytes(bytes, quota_.bytes));
  }
  answers_.TakePiece(size, std::move(done));
  return absl::OkStatus();
}

template <typename Work>
void IngestJob::Post(Work work) {
  const bool posted =
      context_.thread->Post([self = shared_from_this(), work = std::move(work)] { work(*self); });
  if (!posted) Fail(ShuttingDown());
}

void IngestJob::PostPiece(InputPiece piece) {
  Post([shared = std::make_shared<InputPiece>(std::move(piece))](IngestJob& self) {
    self.Read(std::move(*shared));
  });
}

void IngestJob::Append(int64_t offset, std::string text, AppendDone done) {
  const absl::Status status = Accept(offset, std::ssize(text), false, done);
  if (!status.ok()) return Refuse(*context_.thread, std::move(done), status);
  PostPiece({.text = std::move(text)});
}

void IngestJob::AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) {
  const absl::Status status = Accept(offset, std::ssize(tokens), true, done);
  if (!status.ok()) return Refuse(*context_.thread, std::move(done), status);
  PostPiece({.tokens = std::move(tokens)});
}

void IngestJob::Commit(AppendDone done) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = answers_.TakeCommit(done);
  }
  if (!status.ok()) return Refuse(*context_.thread, std::move(done), status);
  Post([](IngestJob& self) {
    self.SettleCommit();
    self.GoOn();
  });
}

void IngestJob::Finish(IngestAnswers::FinishDone done) {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    status = answers_.TakeFinish(done);
  }
  if (!status.ok()) return Refuse(*context_.thread, std::move(done), status);
  PostPiece({.final = true});
}

void IngestJob::Fail(const absl::Status& status) {
  IngestAnswers::Callers callers;
  {
    MutexLock lock(mutex_);
    callers = answers_.End(status);
  }
  callers.Tell(status);
}

void IngestJob::Read(InputPiece piece) {
  const bool final = piece.final;
  absl::Status status = OrExhausted("reading the input", [&] { return Decide(std::move(piece)); });
  bool nothing_kept;
  {
    MutexLock lock(mutex_);
    nothing_kept = answers_.ok() && pending_.committed_offset() == 0;
    if (!final) answers_.append_tokens = queue_.decided() - HeldBack(context_.model);
    if (status.ok()) status = answers_.ended;
    if (status.ok() && final) status = EndInputLocked();
  }
  if (!status.ok()) {
    // Before its caller hears of the end. One that had failed before may be another's by now.
    if (nothing_kept) context_.writer.AbandonIngest(begun_.id).IgnoreError();
    return Fail(status);
  }
  Settle();
  GoOn();
}

absl::Status IngestJob::Decide(InputPiece piece) {
  RETURN_IF_ERROR(CheckMemory());
  const auto push = [this](DecidedTokens part) {
    {
      const MemoryScope scope(MemoryScope::kTake);  // the queue is whole, or it is of no use
      MutexLock lock(mutex_);
      if (!answers_.ok()) return;
      queue_.Push(std::move(part));
    }
    if (!text()) context_.wake();
  };
  bool keeps_append_point = false;
  if (piece.final) {
    MutexLock lock(mutex_);
    keeps_append_point = pending_.MayKeepAppendPoint(queue_);
  }
  if (keeps_append_point) {
    RETURN_IF_ERROR(reader_.DecideAll(push));
    MutexLock lock(mutex_);
    pending_.EndOpen(queue_);
  }
  return reader_.Read(std::move(piece), push);
}

absl::Status IngestJob::EndInputLocked() {
  const auto document = [this] { return absl::StrCat("document \"", begun_.id, "\" "); };
  if (queue_.decided() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(document(), "has no tokens"));
  }
  if (prefix() && queue_.encoded() == queue_.decided()) {
    return absl::InvalidArgumentError(
        absl::StrCat(document(), "ends where its unfinished ingest was committed, but that read ",
                     "more: delete the unfinished document to start again"));
  }
  answers_.stage = IngestStage::kAllRead;
  return absl::OkStatus();
}

void IngestJob::Settle() {
  AppendDone done;
  IngestStatus status;
  {
    MutexLock lock(mutex_);
    const auto& tokens = answers_.append_tokens;
    if (!answers_.callers.append || !tokens.has_value() || !IsEncodedLocked(*tokens)) return;
    std::swap(done, answers_.callers.append);
    status = StatusLocked();
  }
  done(status);
}

bool IngestJob::IsEncodedLocked(int64_t tokens) const {
  return WholeBlocks(context_.model, queue_, tokens, /*final=*/false, /*most_tokens=*/1).tokens ==
         0;
}

}  // namespace recollect::engine
