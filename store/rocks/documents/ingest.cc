// Writing documents: every commit is one write batch over all families, so that chunks, keys, text,
// tokens, offset and resume state become durable together or not at all.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/hash_text.h"
#include "store/pieces.h"
#include "store/rocks/documents/catalog.h"
#include "store/rocks/documents/store_impl.h"

namespace recollect::store::rocks {

absl::StatusOr<IngestProgress> RocksStore::Begin(const IngestProgress& asked) {
  MutexLock lock(catalog_mutex_);
  RETURN_IF_ERROR(CheckBegins(Get(asked.id), asked));
  const std::string& id = asked.id;
  const std::string key = IngestKey(id);
  IngestState state;
  bool found = false;
  {
    ReaderLock owners_lock(owners_mutex_);
    if (const auto known = ingest_ids_.find(id); known != ingest_ids_.end()) {
      state.progress = ingests_.at(known->second)->state.progress;
      found = true;
    }
  }
  if (found) {
    IngestProgress& progress = state.progress;
    RETURN_IF_ERROR(CheckResumable(progress, asked));
    const std::string what = absl::StrCat("resume state of ingest '", id, "'");
    const std::string resume_key = ResumeKey(progress.owner);
    const auto record = database_->Get(Family::kIngests, resume_key, what);
    if (absl::IsNotFound(record.status())) return progress;  // nothing was committed
    RETURN_IF_ERROR(record.status());
    ASSIGN_OR_RETURN(progress.resume_state, DecodeResume(resume_key, *record, what));
    return progress;
  }
  // One that was found damaged when the store was opened must not be written over.
  const std::string what = IngestName(id);
  if (const auto record = database_->Get(Family::kIngests, key, what); record.ok()) {
    RETURN_IF_ERROR(DecodeIngest(key, *record, what).status());
  } else if (!absl::IsNotFound(record.status()) && !absl::IsDataLoss(record.status())) {
    return record.status();  // in a damaged block nothing can be told, and nothing is left to save
  }

  IngestProgress& progress = state.progress;
  progress = asked;
  ASSIGN_OR_RETURN(progress.owner, NewOwner());
  Batch batch;
  batch.Put(Family::kIngests, key, EncodeIngest(key, state));
  RETURN_IF_ERROR(database_->Write(batch, what));
  auto ingest = std::make_shared<Ingest>();
  ingest->state = state;
  WriterLock owners_lock(owners_mutex_);
  owners_.emplace(progress.owner, Owner(Kind::kIngest, {}));
  ingests_.emplace(progress.owner, std::move(ingest));
  ingest_ids_.emplace(id, progress.owner);
  return progress;
}

absl::StatusOr<std::vector<IngestProgress>> RocksStore::ListIngests() {
  ReaderLock lock(owners_mutex_);
  std::vector<IngestProgress> out;
  for (const auto& [id, owner] : ingest_ids_) out.push_back(ingests_.at(owner)->state.progress);
  return out;
}

absl::StatusOr<std::shared_ptr<RocksStore::Ingest>> RocksStore::FindIngest(OwnerId owner) const {
  ReaderLock lock(owners_mutex_);
  const auto found = ingests_.find(owner);
  if (found == ingests_.end()) return NoIngestOf(owner);
  return found->second;
}

template <typename Pieces>
absl::Status RocksStore::Append(OwnerId owner, int64_t committed,
                                const typename Pieces::Entries& more, int64_t width, Batch* out) {
  if (more.empty()) return absl::OkStatus();
  const Family family = FamilyOf(Pieces::kKind);
  const PieceFacts& facts = FactsOf(Pieces::kKind);
  const int64_t index = committed / (facts.entries * width);
  const int64_t in_last = committed % (facts.entries * width);
  typename Pieces::Entries joined;
  if (in_last > 0) {
    const std::string key = PieceKey(owner, index);
    const std::string what = PieceName(facts.name, owner, index);
    ASSIGN_OR_RETURN(const std::string record, database_->Get(family, key, what));
    ASSIGN_OR_RETURN(joined, Pieces::Decode(key, record, what, width));
    if (std::ssize(joined) != in_last) return WrongCount(what, std::ssize(joined), in_last);
    joined.insert(joined.end(), more.begin(), more.end());
  }
  Split<Pieces>(in_last > 0 ? joined : more, width, index, [&](int64_t i, const auto& piece) {
    const std::string key = PieceKey(owner, i);
    out->Put(family, key, Pieces::Encode(key, piece, width));
  });
  return absl::OkStatus();
}

absl::StatusOr<IngestState> RocksStore::AddBatch(const IngestState& state, const IngestBatch& batch,
                                                 Batch* out) {
  ASSIGN_OR_RETURN(IngestState next, Advance(state, batch));
  const IngestProgress& before = state.progress;
  const OwnerId owner = before.owner;
  int64_t index = before.chunks;
  for (const ChunkRecord& chunk : batch.chunks) {
    const std::string key = PieceKey(owner, index++);
    out->Put(Family::kChunks, key, EncodeChunk(key, chunk));
  }
  RETURN_IF_ERROR(Append<TextPieces>(owner, before.bytes, batch.text, 1, out));
  RETURN_IF_ERROR(Append<TokenPieces>(owner, before.tokens, batch.tokens, 1, out));
  RETURN_IF_ERROR(
      Append<KeyPieces>(owner, before.chunks * next.d_k, batch.landmark_keys, next.d_k, out));
  return next;
}

// Numbered on from the committed state, which stays until the commit.
absl::Status RocksStore::PutStatePart(OwnerId owner, int64_t index, absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  if (ingest->done) return IngestHasEnded();
  ASSIGN_OR_RETURN(IngestState next,
                   PutPart(ingest->state, index, static_cast<int64_t>(bytes.size())));
  const IngestProgress& progress = next.progress;
  const std::string key =
      PieceKey(owner, progress.first_state_part + StateParts(progress.state_bytes) + index);
  Batch out;
  out.Put(Family::kChunks, key, EncodeState(key, bytes));
  RETURN_IF_ERROR(database_->Write(out, IngestName(progress.id), Durability::kLogged));
  // All else is as it was, and ListIngests may be reading it.
  ingest->state.put_bytes = next.put_bytes;
  return absl::OkStatus();
}

void RocksStore::DropOldState(const IngestProgress& progress) {
  if (progress.pattern.empty()) return;
  const OwnerId owner = progress.owner;
  const int64_t first = progress.first_state_part;
  const auto drop = [&](const std::string& begin, const std::string& end) {
    LogIfFailed(
        Annotate(database_->DropRange(std::array{Family::kChunks}, begin, end, Durability::kLogged),
                 IngestName(progress.id)));
  };
  if (first > 0) drop(OwnerKey(owner), PieceKey(owner, first));
  drop(PieceKey(owner, first + StateParts(progress.state_bytes)), PieceKey(owner, INT64_MAX));
}

absl::Status RocksStore::CommitIngest(OwnerId owner, const IngestBatch& batch) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  if (ingest->done) return IngestHasEnded();
  Batch out;
  ASSIGN_OR_RETURN(IngestState next, AddBatch(ingest->state, batch, &out));
  const IngestProgress& progress = next.progress;
  // An import is not resumed: nothing is to be found before it is published.
  auto durability = Durability::kLogged;
  if (!ingest->import) {
    durability = Durability::kSynced;
    const std::string key = IngestKey(progress.id);
    const std::string resume_key = ResumeKey(owner);
    out.Put(Family::kIngests, key, EncodeIngest(key, next));
    out.Put(Family::kIngests, resume_key, EncodeResume(resume_key, progress.resume_state));
  }
  RETURN_IF_ERROR(database_->Write(out, IngestName(progress.id), durability));
  next.progress.resume_state.clear();
  WriterLock owners_lock(owners_mutex_);
  owners_.at(owner) = Owner(Kind::kIngest, progress);
  ingest->state = std::move(next);
  owners_lock.unlock();
  DropOldState(ingest->state.progress);
  return absl::OkStatus();
}

absl::Status RocksStore::PutDocument(const IngestProgress& progress, const IngestBatch& last,
                                     DocumentInfo* info, Batch* out) {
  const std::string key = DocumentKey(info->id);
  CatalogRecord catalog = catalog_;
  if (progress.replaces == OwnerId{}) {
    catalog.Add(key);
    Describe(last, nullptr, info);
  } else {
    const absl::StatusOr<DocumentInfo> old = Get(info->id);
    if (!CheckBegins(old, progress).ok()) return ReplacedHasGone(progress);
    Describe(last, &*old, info);
    const std::string removed = RemovedKey(old->owner);
    out->Put(Family::kCatalog, removed, EncodeRemoved(removed, *old));
  }
  PutCatalog(key, EncodeDocument(key, *info), out);
  return WriteCatalog(*out, catalog, DocumentName(info->id));
}

// In the place of the ingest's resume state; it goes when the document is freed.
void RocksStore::PutAppendPoint(OwnerId owner, absl::string_view point, Batch* out) {
  const std::string key = ResumeKey(owner);
  if (point.empty()) return out->Delete(Family::kIngests, key);
  out->Put(Family::kIngests, key, EncodeResume(key, point));
}

absl::StatusOr<DocumentInfo> RocksStore::PublishIngest(OwnerId owner, const IngestBatch& last) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> ingest, FindIngest(owner));
  MutexLock lock(ingest->mutex);
  if (ingest->done) return IngestHasEnded();
  ASSIGN_OR_RETURN(const std::string sha256, TextSha256(*this, ingest->state.progress, last.text));
  Batch out;
  ASSIGN_OR_RETURN(const IngestState next, AddBatch(ingest->state, last, &out));
  DocumentInfo info = MakeDocument(next, sha256);
  MutexLock catalog_lock(catalog_mutex_);
  if (ingest->import) {
    RETURN_IF_ERROR(CheckAbsent(next.progress));
    out.Delete(Family::kCatalog, RemovedKey(owner));
  } else {
    out.Delete(Family::kIngests, IngestKey(info.id));
    PutAppendPoint(owner, last.append_point, &out);
  }
  const OwnerId replaces = next.progress.replaces;
  RETURN_IF_ERROR(PutDocument(next.progress, last, &info, &out));
  WriterLock owners_lock(owners_mutex_);
  owners_.at(owner) = Owner(Kind::kDocument, info);
  if (replaces != OwnerId{}) owners_.at(replaces).kind = Kind::kRemoved;
  ingest->done = true;
  ingests_.erase(owner);
  if (!ingest->import) ingest_ids_.erase(info.id);
  owners_lock.unlock();
  DropOldState(next.progress);
  if (info.first_state_part > 0) {
    cleaner_.Add([this, owner](std::atomic<bool>* canceled) {
      return database_->Compact(Family::kChunks, OwnerKey(owner), PieceKey(owner, INT64_MAX),
                                canceled);
    });
  }
  return info;
}

// Imports are written as ingests are, but without a record that somebody could resume. Their owner
// is marked as removed until they are published.
absl::Status RocksStore::CheckAbsent(const IngestProgress& asked) {
  RETURN_IF_ERROR(CheckBegins(Get(asked.id), asked));
  ReaderLock lock(owners_mutex_);
  return ingest_ids_.contains(asked.id) ? IsBeingIngested(asked.id) : absl::OkStatus();
}

absl::StatusOr<OwnerId> RocksStore::BeginImport(const DocumentInfo& document) {
  RETURN_IF_ERROR(CheckDocumentId(document.id));
  MutexLock lock(catalog_mutex_);
  IngestProgress asked =
      AskedIngest(document.id, document.fingerprint, document.from_tokens, document.pattern);
  RETURN_IF_ERROR(CheckAbsent(asked));
  ASSIGN_OR_RETURN(asked.owner, NewOwner());
  auto import = std::make_shared<Ingest>();
  import->import = true;
  import->state.progress = asked;
  const OwnerId owner = asked.owner;
  const std::string removed = RemovedKey(owner);
  Batch batch;
  batch.Put(Family::kCatalog, removed, EncodeRemoved(removed, MakeDocument(import->state)));
  RETURN_IF_ERROR(database_->Write(batch, absl::StrCat("import of '", document.id, "'")));
  WriterLock owners_lock(owners_mutex_);
  owners_.emplace(owner, Owner(Kind::kIngest, {}));
  ingests_.emplace(owner, std::move(import));
  return owner;
}

absl::Status RocksStore::AbandonImport(OwnerId owner) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> import, FindIngest(owner));
  MutexLock import_lock(import->mutex);
  MutexLock lock(catalog_mutex_);
  if (import->done || !import->import) return ImportHasEnded();
  {
    WriterLock owners_lock(owners_mutex_);
    import->done = true;
    ingests_.erase(owner);
  }
  return FreeRecords(owner);
}

}  // namespace recollect::store::rocks
