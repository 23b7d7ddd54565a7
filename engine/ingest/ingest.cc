#include "engine/ingest/ingest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/memory.h"
#include "base/mxint8.h"
#include "base/status.h"
#include "engine/ingest/resume_state.h"
#include "model/block_ends.h"
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
                                                             IngestQuota quota) {
  ResumeState state;
  if (!progress.resume_state.empty()) {
    ASSIGN_OR_RETURN(state, DecodeResumeState(progress.resume_state));
  }
  RETURN_IF_ERROR(CheckResumeState(state, progress, context.model.config().vocab_size));
  DecidedTokens pending{std::move(state.pending_ids), std::move(state.pending_bytes), "",
                        progress.input_offset};
  TokenQueue queue(progress.from_tokens, state.tokens, state.text_end, progress.bytes,
                   std::move(pending));
  ASSIGN_OR_RETURN(std::unique_ptr<MemoryEncoder> encoder, context.backend.NewEncoder(pattern));
  std::shared_ptr<IngestJob> job(
      new IngestJob(context, std::move(encoder), progress, std::move(queue), std::move(quota)));
  RETURN_IF_ERROR(job->Restore(state, progress));
  const int64_t before = std::min(progress.tokens, job->reach_);
  ASSIGN_OR_RETURN(job->before_, context.store.ReadTokens(progress.owner, progress.tokens - before,
                                                          progress.tokens));
  ASSIGN_OR_RETURN(job->committed_sha256_, HashInput(context.store, progress));
  return job;
}

IngestJob::IngestJob(const IngestContext& context, std::unique_ptr<MemoryEncoder> encoder,
                     const store::IngestProgress& progress, TokenQueue queue, IngestQuota quota)
    : context_(context),
      id_(progress.id),
      owner_(progress.owner),
      from_tokens_(progress.from_tokens),
      prefix_(!context.model.config().landmarks()),
      reach_(context.model.config().pointer.reach),
      quota_(std::move(quota)),
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
        absl::StrCat("input begins at offset ", offset, ", expected ", accepted_offset_));
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
    self->context_.wake();
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
    context_.wake();
  };
  absl::Status status = OrExhausted("reading the input", [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckMemory());
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
      cut_short = prefix_ && status.ok() && !empty && queue_.encoded() == queue_.decided();
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
  context_.wake();
}

// At least one block, if the end of any is decided.
IngestJob::Slice IngestJob::SliceLocked(int64_t most_tokens) const {
  if (!failed_.ok() || publishing_ || queue_.encoded() == queue_.decided()) return {};
  // One commit may be on its way while the next one gathers, not more. One of a prefix reads the
  // state itself.
  if (committing_ && (prefix_ || queue_.uncommitted() >= context_.commit_tokens)) return {};
  std::span<const int32_t> left = queue_.waiting(queue_.decided() - queue_.encoded() - HeldBack());
  Slice slice;
  while (slice.tokens < most_tokens) {
    const int64_t block = model::NextBlock(context_.model, left, all_read_);
    if (block == 0 || (slice.tokens > 0 && slice.tokens + block > most_tokens)) break;
    slice.blocks.push_back(block);
    slice.tokens += block;
    left = left.subspan(static_cast<size_t>(block));
  }
  if (all_read_ && left.empty()) slice.tokens += HeldBack();
  return slice;
}

bool IngestJob::AllEncodedLocked() const {
  return failed_.ok() && all_read_ && !publishing_ && queue_.encoded() == queue_.decided();
}

// One whose account has read too much waits, and its caller with it; the scheduler asks again.
bool IngestJob::HasSlice() {
  const bool may_read = quota_.account == nullptr || quota_.account->CheckTokens().ok();
  MutexLock lock(mutex_);
  return (may_read && SliceLocked(/*most_tokens=*/1).tokens > 0) || AllEncodedLocked() ||
         CommitIsWantedLocked();
}

void IngestJob::RunSlice(int64_t most_tokens) {
  const absl::Status encoded = OrExhausted("an ingest", [&] { return Encode(most_tokens); });
  encoded.ok() ? Settle() : Fail(encoded);
}

absl::Status IngestJob::Encode(int64_t most_tokens) {
  RETURN_IF_ERROR(CheckMemory());
  Slice slice;
  std::vector<int32_t> ids, bytes;
  int64_t text_end;
  {
    MutexLock lock(mutex_);
    slice = SliceLocked(most_tokens);
    if (slice.tokens == 0) {
      if (AllEncodedLocked()) {
        StartCommit(/*last=*/true);
      } else if (CommitIsWantedLocked()) {
        StartCommit(/*last=*/false);
      }
      return absl::OkStatus();
    }
    const auto waiting = queue_.waiting(slice.tokens),
               waiting_bytes = queue_.waiting_bytes(slice.tokens);
    ids.assign(waiting.begin(), waiting.end());
    bytes.assign(waiting_bytes.begin(), waiting_bytes.end());
    text_end = queue_.text_end();
  }
  std::vector<Block> blocks;
  int64_t read = 0;
  for (const int64_t tokens : slice.blocks) {
    blocks.push_back(Block(ids).subspan(static_cast<size_t>(read), static_cast<size_t>(tokens)));
    read += tokens;
  }
  if (prefix_) {
    RETURN_IF_ERROR(context_.state_budget.CheckRoom(StateGrowth(context_.model.config(), read)));
  }
  ASSIGN_OR_RETURN(std::vector<model::EncodedChunk> chunks, encoder_->Encode(blocks));
  if (prefix_) context_.state_budget.Set(charge_, encoder_->bytes());
  size_t token = 0;
  std::vector<store::ChunkRecord> records;
  for (model::EncodedChunk& chunk : chunks) {
    const Block block = blocks[records.size()];
    before_.insert(before_.end(), block.begin(), block.end());
    context_.model.AddTokens(before_, chunk);
    before_.erase(before_.begin(), before_.end() - std::min(std::ssize(before_), reach_));
    store::ChunkRecord record;
    record.tokens = std::move(chunk.tokens);
    record.rows = chunk.rows;
    record.states = std::move(chunk.states);
    if (context_.chunk_states_format == ChunkStatesFormat::kMxInt8) {
      record.mxint8 = RoundToMxInt8(record.states);
    }
    record.text_begin = text_end;
    for (int row = 0; row < record.rows; ++row) text_end += bytes[token++];
    record.text_end = text_end;
    records.push_back(std::move(record));
    batch_.landmark_keys.insert(batch_.landmark_keys.end(), chunk.landmark_key.begin(),
                                chunk.landmark_key.end());
  }
  context_.counters.ingested_tokens += static_cast<int64_t>(ids.size());
  if (quota_.account != nullptr) quota_.account->SpendTokens(std::ssize(ids));
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(failed_);
    std::move(records.begin(), records.end(), std::back_inserter(batch_.chunks));
    queue_.MarkEncoded(static_cast<int64_t>(ids.size()));
    chunks_ += static_cast<int64_t>(records.size());
    if (AllEncodedLocked()) {
      StartCommit(/*last=*/true);
    } else if (CommitIsDueLocked()) {
      StartCommit(/*last=*/false);
    }
  }
  return absl::OkStatus();
}

bool IngestJob::IsEncodedLocked(int64_t tokens) const {
  const int64_t left = tokens - queue_.encoded();
  return left <= 0 || model::NextBlock(context_.model, queue_.waiting(left), /*final=*/false) == 0;
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
