#include "engine/ingest/ingest_commit.h"

#include <algorithm>

#include "base/status.h"
#include "engine/ingest/resume_state.h"

namespace recollect::engine {
namespace {

// Fewer tokens are read again when a document is appended to.
constexpr int64_t kLeastAppendTokens = 1024;
// An append point's state of the layers has at most this part of the bytes of the chunk states.
constexpr int64_t kAppendStateShare = 2;

std::string ResumeAt(const TokenQueue& queue, TokenQueue::Place place, std::string local_state) {
  return EncodeResumeState({.tokens = queue.encoded(),
                            .text_end = queue.text_end(),
                            .pending_ids = std::move(place.pending_ids),
                            .pending_bytes = std::move(place.pending_bytes),
                            .local_state = std::move(local_state)});
}

}  // namespace

PendingCommit::PendingCommit(const IngestContext& context, const store::IngestProgress& progress)
    : model_(context.model),
      commit_tokens_(context.model.config().documents() == DocumentKind::kText
                         ? context.text_commit_tokens
                         : context.commit_tokens),
      chunks_(progress.chunks),
      committed_offset_(progress.input_offset) {}

void PendingCommit::Add(EncodedSlice slice) {
  chunks_ += std::ssize(slice.chunks);
  std::move(slice.chunks.begin(), slice.chunks.end(), std::back_inserter(batch_.chunks));
  batch_.landmark_keys.insert(batch_.landmark_keys.end(), slice.landmark_keys.begin(),
                              slice.landmark_keys.end());
}

// A commit of a prefix writes its whole state: the longer it is, the rarer, so that all of them
// together write a few times what the last one does. Text costs next to nothing to read again.
bool PendingCommit::IsFull(const TokenQueue& queue) const {
  const bool prefix = model_.config().documents() == DocumentKind::kPrefix;
  return queue.uncommitted() >=
         std::max(commit_tokens_, prefix ? queue.committed() / 4 : commit_tokens_);
}

store::IngestBatch PendingCommit::Take(TokenQueue& queue, std::optional<std::string> local_state) {
  store::IngestBatch batch = std::exchange(batch_, {});
  TokenQueue::Place place = queue.Commit(batch);
  if (local_state.has_value()) {
    running_ = true;
    batch.resume_state = ResumeAt(queue, std::move(place), *std::move(local_state));
  } else {
    batch.append_point = std::move(append_point_).value_or("");
  }
  return batch;
}

void PendingCommit::Committed(int64_t input_offset) {
  running_ = false;
  committed_offset_ = input_offset;
}

bool PendingCommit::MayKeepAppendPoint(const TokenQueue& queue) const {
  return model_.config().documents() != DocumentKind::kPrefix &&
         queue.decided() >= kLeastAppendTokens;
}

std::optional<int64_t> PendingCommit::pause() const {
  return append_point_.has_value() ? std::nullopt : open_end_;
}

// The state of the layers has one size; beside a short document's chunks it would be the larger
// part.
void PendingCommit::TakeAppendPoint(const TokenQueue& queue, std::string local_state) {
  append_point_ = "";
  const int64_t chunk_states = queue.encoded() * model_.config().state_width();
  const bool large = std::ssize(local_state) > chunk_states / kAppendStateShare;
  if (chunks_ == 0 || large) return;
  TokenQueue::Place place = queue.place();
  AppendPoint point{.chunks = chunks_, .bytes = place.text_end, .input_offset = place.input_offset};
  point.resume_state = ResumeAt(queue, std::move(place), std::move(local_state));
  append_point_ = EncodeAppendPoint(point);
}

// Another writer is ABORTED, and worth another try, only when a stream begins. Later the document
// was deleted or taken over, and who tried again would undo that.
absl::Status CommitWriter::Counted(absl::Status status) const {
  if (absl::IsAborted(status)) status = absl::FailedPreconditionError(status.message());
  counters_.CountError(status);
  return status;
}

absl::Status CommitWriter::Commit(const SliceEncoder& encoder, store::IngestBatch& batch) const {
  absl::Status status = encoder.WriteState(batch);
  if (status.ok()) status = store_.CommitIngest(owner_, batch);
  return Annotate(Counted(std::move(status)), "commit");
}

absl::StatusOr<store::DocumentInfo> CommitWriter::Publish(const absl::Status& state,
                                                          store::IngestBatch batch) const {
  batch.metadata = metadata_;
  absl::StatusOr<store::DocumentInfo> info =
      state.ok() ? store_.PublishIngest(owner_, batch) : state;
  if (!info.ok()) return Counted(info.status());
  return info;
}

}  // namespace recollect::engine
