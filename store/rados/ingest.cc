// Commits. Data goes into segment objects that only this writer names, beside what is committed;
// one change of the head, which compares the epoch, makes all of it part of the ingest.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/format.h"
#include "store/hash_text.h"
#include "store/pieces.h"
#include "store/rados/store_impl.h"

namespace recollect::store::rados {

absl::StatusOr<RadosStore::Written> RadosStore::WriteBatch(Ingest& ingest,
                                                           const IngestBatch& batch) {
  const IngestProgress& before = ingest.state.progress;
  const OwnerId owner = before.owner;
  Written out{.segment = ingest.segment, .offset = ingest.offset};
  std::vector<WriteRequest> writes;
  const auto put = [&](Kind kind, const std::string& record, size_t count) {
    if (out.offset > 0 &&
        out.offset + record.size() > static_cast<uint64_t>(options_.object_bytes)) {
      ++out.segment;
      out.offset = 0;
    }
    const std::string name = SegmentName(owner, ingest.epoch, out.segment);
    if (writes.empty() || writes.back().object != name) writes.push_back({name, out.offset, ""});
    writes.back().bytes += record;
    out.extents.push_back({kind, ingest.epoch, out.segment, static_cast<uint32_t>(out.offset),
                           static_cast<uint32_t>(record.size()), static_cast<uint32_t>(count)});
    out.offset += record.size();
  };
  int64_t chunk = before.chunks;
  for (const ChunkRecord& record : batch.chunks) {
    put(Kind::kChunks, EncodeChunk(PieceKey(owner, chunk++), record), 1);
  }
  const auto pieces = [&]<typename Pieces>(Pieces, const typename Pieces::Entries& entries,
                                           int64_t width) {
    Split<Pieces>(entries, width, ingest.layout->pieces(Pieces::kKind),
                  [&](int64_t index, const auto& piece) {
                    put(Pieces::kKind, Pieces::Encode(PieceKey(owner, index), piece, width),
                        piece.size() / static_cast<size_t>(width));
                  });
  };
  pieces(TextPieces(), batch.text, 1);
  pieces(TokenPieces(), batch.tokens, 1);
  if (!batch.chunks.empty()) {
    pieces(KeyPieces(), batch.landmark_keys,
           std::ssize(batch.landmark_keys) / std::ssize(batch.chunks));
  }
  RETURN_IF_ERROR(pool_->Write(writes, IngestName(before.id)));
  const std::string extents = ExtentsKey(ingest.cursor.commits);
  out.change.set[extents] = EncodeExtents(extents, out.extents);
  out.cursor = {ingest.cursor.commits + 1,
                batch.state_bytes > 0 ? ingest.epoch : ingest.cursor.state_epoch};
  return out;
}

absl::Status RadosStore::CheckWritable(const Ingest& ingest) {
  if (ingest.done) return IngestHasEnded();
  if (!ingest.lost) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(IngestName(ingest.state.progress.id),
                                         ": a commit has failed, and may have been written all the "
                                         "same: begin it again"));
}

// The cursor is compared too: a commit is made once or not at all.
absl::Status RadosStore::ChangeHead(Ingest& ingest, Change change) {
  const IngestProgress& progress = ingest.state.progress;
  change.expect[kEpochKey] = absl::StrCat(ingest.epoch);
  change.expect[kCursorKey] = EncodeCursor(kCursorKey, ingest.cursor);
  const absl::Status changed =
      pool_->Apply(HeadName(progress.owner), change, IngestName(progress.id));
  if (!absl::IsAborted(changed) && !absl::IsNotFound(changed)) return changed;
  return absl::AbortedError(absl::StrCat(IngestName(progress.id),
                                         " was taken over by another server, or deleted, after "
                                         "this one did not renew its lock in time"));
}

absl::Status RadosStore::Failed(Ingest& ingest, const absl::Status& status) {
  if (absl::IsResourceExhausted(status) || absl::IsInvalidArgument(status)) return status;
  ingest.lost = true;
  leases_.Drop(HeadName(ingest.state.progress.owner), kWriterLock);
  return status;
}

// Numbered on from the committed state, which stays until the commit.
absl::Status RadosStore::PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  RETURN_IF_ERROR(CheckWritable(*ingest));
  ASSIGN_OR_RETURN(const IngestState next, PutPart(ingest->state, index, std::ssize(bytes)));
  const IngestProgress& progress = next.progress;
  const int64_t number = progress.first_state_part + StateParts(progress.state_bytes) + index;
  const WriteRequest write[] = {{StatePartName(owner, ingest->epoch, number), 0,
                                 EncodeState(PieceKey(owner, number), bytes), /*whole=*/true}};
  const absl::Status written = pool_->Write(write, IngestName(progress.id));
  if (!written.ok()) return Failed(*ingest, written);
  ingest->state.put_bytes = next.put_bytes;
  return absl::OkStatus();
}

void RadosStore::DropOldState(const IngestProgress& before, uint64_t state_epoch,
                              const IngestProgress& now) {
  if (before.state_bytes == 0 || before.first_state_part == now.first_state_part) return;
  const absl::Status dropped =
      pool_->Remove(StateObjects(before.owner, state_epoch, before), "an earlier state");
  LogIfFailed(Annotate(dropped, IngestName(before.id)));
}

absl::Status RadosStore::CommitIngest(OwnerId owner, const IngestBatch& batch) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  RETURN_IF_ERROR(CheckWritable(*ingest));
  ASSIGN_OR_RETURN(IngestState next, Advance(ingest->state, batch));
  absl::StatusOr<Written> written = WriteBatch(*ingest, batch);
  if (!written.ok()) return Failed(*ingest, written.status());
  const CursorRecord cursor = written->cursor;
  Change change = std::move(written->change);
  change.set[kProgressKey] = EncodeIngest(kProgressKey, next);
  change.set[kCursorKey] = EncodeCursor(kCursorKey, cursor);
  change.remove = {kFinalKey, kFinalCursorKey};  // of a publication that failed
  change.data = EncodeResume(ResumeKey(owner), next.progress.resume_state);
  const absl::Status changed = ChangeHead(*ingest, std::move(change));
  if (!changed.ok()) return Failed(*ingest, changed);
  next.progress.resume_state.clear();
  const IngestState before = std::exchange(ingest->state, std::move(next));
  const uint64_t state_epoch = std::exchange(ingest->cursor, cursor).state_epoch;
  ingest->segment = written->segment;
  ingest->offset = written->offset;
  ingest->layout->Add(written->extents, Sizes(ingest->state.progress, cursor.state_epoch));
  DropOldState(before.progress, state_epoch, ingest->state.progress);
  return absl::OkStatus();
}

absl::StatusOr<Change> RadosStore::Publication(const Ingest& ingest, const IngestBatch& last,
                                               DocumentInfo* info) {
  const IngestProgress& progress = ingest.state.progress;
  const OwnerId owner = progress.owner;
  const std::string key = DocumentKey(info->id);
  Change publish;
  publish.expect[key] = "";
  if (progress.replaces == OwnerId{}) {
    Describe(last, nullptr, info);
  } else {
    ASSIGN_OR_RETURN(const auto entries, CatalogEntries(info->id));
    const absl::StatusOr<DocumentInfo> old = DocumentIn(entries, info->id);
    if (!CheckBegins(old, progress).ok()) return ReplacedHasGone(progress);
    publish.expect[key] = entries.at(key);
    Describe(last, &*old, info);
    const std::string removed = RemovedKey(old->owner);
    publish.set[removed] = EncodeRemoved(removed, *old);
  }
  publish.set[key] = EncodeDocument(key, *info);
  if (!ingest.import_record.empty()) {
    publish.expect[IngestKey(info->id)] = "";
    publish.expect[FreeingKey(owner)] = "";
    publish.expect[RemovedKey(owner)] = ingest.import_record;
    publish.remove = {RemovedKey(owner)};
  } else {
    publish.expect[WriterKey(info->id)] = WriterValue(owner, ingest.epoch);
    publish.remove = {IngestKey(info->id), WriterKey(info->id)};
  }
  return publish;
}

// The head is made ready first, beside the progress that it keeps; the entry in the catalog then
// publishes. After a crash between the two the ingest is as its last commit left it.
absl::StatusOr<DocumentInfo> RadosStore::PublishIngest(OwnerId owner, const IngestBatch& last) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  RETURN_IF_ERROR(CheckWritable(*ingest));
  ASSIGN_OR_RETURN(const IngestState next, Advance(ingest->state, last));
  ASSIGN_OR_RETURN(const std::string sha256, TextSha256(*this, ingest->state.progress, last.text));
  absl::StatusOr<Written> written = WriteBatch(*ingest, last);
  if (!written.ok()) return Failed(*ingest, written.status());
  DocumentInfo info = MakeDocument(next, sha256);
  ASSIGN_OR_RETURN(Change publish, Publication(*ingest, last, &info));
  Change ready = std::move(written->change);
  ready.set[kFinalKey] = EncodeDocument(kFinalKey, info);
  ready.set[kFinalCursorKey] = EncodeCursor(kFinalCursorKey, written->cursor);
  const std::string point = AppendPointKey(absl::StrCat(ingest->epoch));
  if (last.append_point.empty()) {
    ready.remove = {point};  // of a publication that failed
  } else {
    ready.set[point] = EncodeResume(point, last.append_point);
  }
  const absl::Status made_ready = ChangeHead(*ingest, std::move(ready));
  if (!made_ready.ok()) return Failed(*ingest, made_ready);

  const bool import = !ingest->import_record.empty();
  const std::string key = DocumentKey(info.id);
  std::string expected = publish.expect[key];
  absl::Status published = ChangeCatalog(std::move(publish), DocumentName(info.id));
  // The metadata of the document that is replaced may have been changed since they were read.
  while (absl::IsAborted(published) && next.progress.replaces != OwnerId{}) {
    ASSIGN_OR_RETURN(publish, Publication(*ingest, last, &info));
    if (publish.expect[key] == expected) break;
    expected = publish.expect[key];
    published = ChangeCatalog(std::move(publish), DocumentName(info.id));
  }
  if (absl::IsAborted(published) && import) {
    ASSIGN_OR_RETURN(const auto entries, CatalogEntries(info.id));
    if (!entries.empty()) return Exists(info.id);
  }
  if (absl::IsAborted(published)) {
    return Failed(*ingest, absl::AbortedError(absl::StrCat(
                               DocumentName(info.id),
                               ": another server took its ingest over, or it was deleted")));
  }
  if (!published.ok()) return Failed(*ingest, published);
  ingest->done = true;
  ingest->layout->Add(written->extents, Sizes(info, written->cursor.state_epoch));
  NameForCache(*ingest->layout, info);
  {
    MutexLock layouts_lock(mutex_);
    layouts_[owner] = ingest->layout;
  }
  LetGo(owner);
  DropOldState(ingest->state.progress, ingest->cursor.state_epoch, next.progress);
  return info;
}

}  // namespace recollect::store::rados
