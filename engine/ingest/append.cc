#include "engine/ingest/append.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/status.h"
#include "engine/ingest/resume_state.h"

namespace recollect::engine {
namespace {

constexpr int64_t kCopiedChunks = 256;                  // in one commit
constexpr int64_t kReplayedBytes = int64_t{256} << 10;  // of text, sent at once
constexpr int64_t kReplayedTokens = int64_t{64} << 10;

// The document's append point; nothing if it has none that can be used: then it is read from its
// beginning.
absl::StatusOr<AppendPoint> FindAppendPoint(const IngestContext& context,
                                            const store::DocumentInfo& document) {
  const auto find = [&]() -> absl::StatusOr<AppendPoint> {
    ASSIGN_OR_RETURN(const std::string record, context.reader.ReadAppendPoint(document.owner));
    return DecodeAppendPoint(record, document);
  };
  absl::StatusOr<AppendPoint> point = find();
  if (absl::IsNotFound(point.status())) return AppendPoint();
  context.counters.CountError(point.status());
  if (absl::IsDataLoss(point.status())) return AppendPoint();
  return point;
}

// Copies the records of chunks [begin, end), and the tokens and the text that they cover, which
// follow those in `progress`; moves that on.
absl::StatusOr<store::IngestBatch> ReadRecords(const IngestContext& context,
                                               const store::DocumentInfo& document, int64_t end,
                                               store::IngestProgress& progress) {
  store::DocumentReader& store = context.reader;
  store::IngestBatch batch;
  if (document.kind() == DocumentKind::kChunks) {
    ASSIGN_OR_RETURN(batch.landmark_keys,
                     store.ReadLandmarkKeyRange(document.owner, progress.chunks, end,
                                                context.model.config().key_width()));
  }
  std::vector<ChunkRef> refs;
  for (; progress.chunks < end; ++progress.chunks) {
    refs.push_back({document.owner, progress.chunks});
  }
  int64_t tokens = progress.tokens, bytes = progress.bytes;
  for (absl::StatusOr<store::ChunkRecord>& chunk : store.ReadChunks(refs)) {
    RETURN_IF_ERROR(chunk.status());
    tokens += chunk->rows;
    bytes = chunk->text_end;
    batch.chunks.push_back(*std::move(chunk));
  }
  ASSIGN_OR_RETURN(batch.tokens, store.ReadTokens(document.owner, progress.tokens, tokens));
  ASSIGN_OR_RETURN(batch.text, store.ReadText(document.owner, progress.bytes, bytes));
  progress.tokens = tokens;
  progress.bytes = bytes;
  batch.input_offset = document.from_tokens ? tokens : bytes;
  return batch;
}

absl::Status CopyRecords(const IngestContext& context, const store::DocumentInfo& document,
                         const AppendPoint& point, store::IngestProgress progress) {
  while (progress.chunks < point.chunks) {
    const int64_t end = std::min(progress.chunks + kCopiedChunks, point.chunks);
    ASSIGN_OR_RETURN(store::IngestBatch batch, ReadRecords(context, document, end, progress));
    if (end == point.chunks) {
      ASSIGN_OR_RETURN(const std::string rest,
                       context.reader.ReadText(document.owner, progress.bytes, point.bytes));
      batch.text += rest;
      batch.input_offset = point.input_offset;
      batch.resume_state = point.resume_state;
    }
    RETURN_IF_ERROR(context.writer.CommitIngest(progress.owner, batch));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<store::IngestProgress> BeginAppend(const IngestContext& context,
                                                  const store::DocumentInfo& document,
                                                  const std::string& pattern) {
  ASSIGN_OR_RETURN(const AppendPoint point, FindAppendPoint(context, document));
  store::IngestWriter& store = context.writer;
  const std::string& fingerprint = document.fingerprint;
  ASSIGN_OR_RETURN(store::IngestProgress progress,
                   store.BeginRefresh(document, fingerprint, pattern));
  if (point.chunks == 0) return progress;
  absl::Status copied = CopyRecords(context, document, point, progress);
  if (copied.ok()) {
    // What the store has now, as if an earlier stream had committed it.
    absl::StatusOr<store::IngestProgress> there =
        store.BeginRefresh(document, fingerprint, pattern);
    if (there.ok()) return there;
    copied = there.status();
  }
  store.AbandonIngest(document.id).IgnoreError();
  return copied;
}

AppendStream::AppendStream(const IngestContext& context, Pin document,
                           std::shared_ptr<IngestJob> job)
    : store_(context.reader),
      thread_(context.thread),
      job_(std::move(job)),
      base_(document->info().from_tokens ? document->info().tokens : document->info().bytes),
      document_(std::move(document)) {}

void AppendStream::Replay(int64_t offset) {
  const bool posted = thread_->Post([self = shared_from_this(), offset] {
    const absl::Status sent = OrExhausted("an append", [&] { return self->Send(offset); });
    if (!sent.ok()) self->End(sent);
  });
  if (!posted) End(ShuttingDown());
}

absl::Status AppendStream::Send(int64_t offset) {
  if (offset >= base_) {
    End(absl::OkStatus());
    return absl::OkStatus();
  }
  const store::DocumentInfo& document = document_->info();
  const int64_t most = document.from_tokens ? kReplayedTokens : kReplayedBytes;
  const int64_t end = std::min(offset + most, base_);
  auto done = [self = shared_from_this(), end](const absl::StatusOr<IngestStatus>& status) {
    status.ok() ? self->Replay(end) : self->End(status.status());
  };
  if (document.from_tokens) {
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, store_.ReadTokens(document.owner, offset, end));
    job_->AppendTokens(offset, std::move(tokens), std::move(done));
  } else {
    ASSIGN_OR_RETURN(std::string text, store_.ReadText(document.owner, offset, end));
    job_->Append(offset, std::move(text), std::move(done));
  }
  return absl::OkStatus();
}

// Hands on what was sent meanwhile. After an error the job has failed, and says so to those who
// wait.
void AppendStream::End(const absl::Status& status) {
  if (!status.ok()) job_->Fail(status);
  document_ = nullptr;
  while (true) {
    std::vector<std::function<void()>> waiting;
    {
      MutexLock lock(mutex_);
      ended_ = waiting_.empty();  // until then calls are handed on from here, in their order
      if (ended_) return;
      std::swap(waiting, waiting_);
    }
    for (const auto& call : waiting) call();
  }
}

// Runs `call` once the job has read the document; at once if it has. False: one waits already that
// is to be answered first.
bool AppendStream::RunAfter(std::function<void()> call, bool alone) {
  {
    MutexLock lock(mutex_);
    if (!ended_) {
      if (alone && !waiting_.empty()) return false;
      waiting_.push_back(std::move(call));
      return true;
    }
  }
  call();
  return true;
}

// Offsets from the document's end. What is committed is of no use to another stream.
IngestStatus AppendStream::Relative(IngestStatus status) const {
  status.accepted_offset = std::max<int64_t>(0, status.accepted_offset - base_);
  status.committed_offset = std::max<int64_t>(0, status.committed_offset - base_);
  status.committed_sha256.clear();
  return status;
}

IngestStream::AppendDone AppendStream::Relative(AppendDone done) {
  return [self = shared_from_this(), done = std::move(done)](absl::StatusOr<IngestStatus> got) {
    if (got.ok()) got = self->Relative(*std::move(got));
    done(std::move(got));
  };
}

IngestStatus AppendStream::status() const { return Relative(job_->status()); }

void AppendStream::Take(std::optional<int64_t> offset, AppendDone done,
                        std::function<void(AppendDone)> call) {
  const int64_t expected = status().accepted_offset;
  if (offset.has_value() && *offset != expected && !job_->failed()) {
    return Refuse(*thread_, std::move(done),
                  absl::InvalidArgumentError(
                      absl::StrCat("piece.offset: ", *offset, ", expected ", expected)));
  }
  const bool taken = RunAfter([call = std::move(call), done = Relative(done)] { call(done); },
                              /*alone=*/true);
  if (taken) return;
  Refuse(*thread_, std::move(done),
         absl::FailedPreconditionError("the piece or commit before is not answered yet"));
}

void AppendStream::Append(int64_t offset, std::string text, AppendDone done) {
  Take(offset, std::move(done),
       [job = job_, at = base_ + offset, text = std::move(text)](AppendDone relative) mutable {
         job->Append(at, std::move(text), std::move(relative));
       });
}

void AppendStream::AppendTokens(int64_t offset, std::vector<int32_t> tokens, AppendDone done) {
  Take(offset, std::move(done),
       [job = job_, at = base_ + offset, tokens = std::move(tokens)](AppendDone relative) mutable {
         job->AppendTokens(at, std::move(tokens), std::move(relative));
       });
}

void AppendStream::Commit(AppendDone done) {
  Take(std::nullopt, std::move(done),
       [job = job_](AppendDone relative) { job->Commit(std::move(relative)); });
}

void AppendStream::Finish(IngestAnswers::FinishDone done) {
  RunAfter([job = job_, done = std::move(done)] { job->Finish(done); }, /*alone=*/false);
}

}  // namespace recollect::engine
