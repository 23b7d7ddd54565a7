// Gathers what an ingest has encoded, and writes it to the store with the state to resume from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/ingest/ingest_context.h"
#include "engine/ingest/ingest_encode.h"
#include "engine/ingest/ingest_input.h"
#include "store/document_store.h"

namespace recollect::engine {

// Gathers what the next commit writes. Guarded by its owner's mutex.
class PendingCommit {
 public:
  PendingCommit(const IngestContext& context, const store::IngestProgress& progress);

  int64_t chunks() const { return chunks_; }  // encoded, of the document
  int64_t committed_offset() const { return committed_offset_; }
  bool running() const { return running_; }  // from Take to Committed

  void Add(EncodedSlice slice);
  // Whether so much is encoded that it has to be committed.
  bool IsFull(const TokenQueue& queue) const;
  // Removes from here and from the queue what a commit writes. `local_state`: of the layers at this
  // point; none: it is the last commit, which publishes.
  store::IngestBatch Take(TokenQueue& queue, std::optional<std::string> local_state);
  void Committed(int64_t input_offset);

  // Whether a document that ends now may keep an append point. A prefix keeps none: it would be a
  // second state as large as the document's.
  bool MayKeepAppendPoint(const TokenQueue& queue) const;
  // Says that later input cannot change the tokens in the queue, but may change those that the end
  // of the input will add.
  void EndOpen(const TokenQueue& queue) { open_end_ = queue.decided(); }
  // Returns where those end if their append point is still to be taken: they are encoded before the
  // rest.
  std::optional<int64_t> pause() const;
  // Takes it here, unless it would be too large for the document.
  void TakeAppendPoint(const TokenQueue& queue, std::string local_state);

 private:
  const model::Model& model_;
  const int64_t commit_tokens_;
  store::IngestBatch batch_;  // chunks and keys since the last commit
  int64_t chunks_, committed_offset_;
  bool running_ = false;
  std::optional<int64_t> open_end_;
  std::optional<std::string> append_point_;  // empty: none is kept
};

// Writes commits. Used by the thread of ingests. Blocks on the disk.
class CommitWriter {
 public:
  // `metadata`: IngestBatch::metadata of the publication.
  CommitWriter(const IngestContext& context, OwnerId owner, std::optional<std::string> metadata)
      : store_(context.writer),
        counters_(context.counters),
        owner_(owner),
        metadata_(std::move(metadata)) {}

  absl::Status Commit(const SliceEncoder& encoder, store::IngestBatch& batch) const;
  // `state`: SliceEncoder::WriteState of the batch.
  absl::StatusOr<store::DocumentInfo> Publish(const absl::Status& state,
                                              store::IngestBatch batch) const;

 private:
  absl::Status Counted(absl::Status status) const;

  store::IngestWriter& store_;
  Counters& counters_;
  const OwnerId owner_;
  const std::optional<std::string> metadata_;
};

}  // namespace recollect::engine
