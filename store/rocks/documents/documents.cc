// Documents as a whole, freeing, and sessions' own chunks.
#include <utility>

#include "base/status.h"
#include "store/rocks/documents/catalog.h"
#include "store/rocks/documents/store_impl.h"
#include "store/store_errors.h"

namespace recollect::store::rocks {
namespace {

// Owner numbers are reserved on disk in blocks, so that most owners cost no write of their own; a
// restart skips the rest of a block.
constexpr uint64_t kOwnerBlock = 4096;

// Freed session chunks worth a compaction. Until then their space returns with ordinary ones.
constexpr int64_t kSessionCompactionBytes = int64_t{256} << 20;
// Freed sessions worth one, however small: each has left a mark.
constexpr int64_t kSessionCompactionCount = 1024;

}  // namespace

absl::StatusOr<OwnerId> RocksStore::NewOwner() {
  MutexLock lock(numbers_mutex_);
  return NewOwnerLocked();
}

absl::StatusOr<OwnerId> RocksStore::NewOwnerLocked() {
  if (next_owner_ == owner_limit_) {
    MetaRecord meta;
    meta.next_owner = owner_limit_ + kOwnerBlock;
    // Few bytes, seldom: whoever only reads opens sessions too.
    Batch batch(/*uses_reserve=*/true);
    PutMeta(meta, &batch);
    RETURN_IF_ERROR(database_->Write(batch, "owner numbers"));
    owner_limit_ = meta.next_owner;
  }
  return OwnerId{next_owner_++};
}

absl::StatusOr<RocksStore::Owner> RocksStore::FindOwner(OwnerId owner) const {
  ReaderLock lock(owners_mutex_);
  const auto found = owners_.find(owner);
  if (found == owners_.end()) return NoOwner(owner);
  return found->second;
}

absl::Status RocksStore::OfDocument(OwnerId owner, const absl::Status& status) const {
  if (!absl::IsDataLoss(status)) return status;
  const absl::StatusOr<Owner> known = FindOwner(owner);
  return known.ok() && !known->id.empty() ? Annotate(status, DocumentName(known->id)) : status;
}

bool RocksStore::Is(OwnerId owner, Kind kind) const {
  ReaderLock lock(owners_mutex_);
  const auto found = owners_.find(owner);
  return found != owners_.end() && found->second.kind == kind;
}

// A document whose publication failed may be found in the log when the database is opened again: it
// is in the catalog, and not published.
absl::StatusOr<DocumentInfo> RocksStore::Get(const std::string& id) {
  auto info = GetDocument(*database_, id);
  const bool unpublished = info.ok() && !Is(info->owner, Kind::kDocument);
  return unpublished || absl::IsNotFound(info.status()) ? NoDocument(id) : std::move(info);
}

absl::StatusOr<std::vector<DocumentInfo>> RocksStore::List(const std::string& after,
                                                           int64_t limit) {
  std::vector<DocumentInfo> out;
  if (limit <= 0) return out;
  RETURN_IF_ERROR(ScanDocuments(
      *database_, after, [&](absl::string_view id, const absl::StatusOr<DocumentInfo>& info) {
        if (info.ok() && !Is(info->owner, Kind::kDocument)) return true;
        out.push_back(Listed(id, info));
        return static_cast<int64_t>(out.size()) < limit;
      }));
  return out;
}

absl::Status RocksStore::WriteCatalog(Batch& batch, CatalogRecord next, absl::string_view what) {
  ++next.changes;
  PutCatalog(CatalogKey(), EncodeCatalog(CatalogKey(), next), &batch);
  RETURN_IF_ERROR(database_->Write(batch, what));
  catalog_ = next;
  database_->head().SetCatalog(next);
  return absl::OkStatus();
}

absl::StatusOr<DocumentInfo> RocksStore::Remove(const std::string& id) {
  MutexLock lock(catalog_mutex_);
  const absl::StatusOr<DocumentInfo> found = Get(id);
  if (!found.ok() && !absl::IsDataLoss(found.status())) return found.status();
  Batch batch(/*uses_reserve=*/true);
  const std::string key = DocumentKey(id);
  DeleteCatalog(key, &batch);
  CatalogRecord next = catalog_;
  next.Subtract(key);
  const DocumentInfo info = Listed(id, found);
  if (found.ok()) {
    const std::string removed = RemovedKey(info.owner);
    batch.Put(Family::kCatalog, removed, EncodeRemoved(removed, info));
  }
  RETURN_IF_ERROR(WriteCatalog(batch, next, DocumentName(id)));
  if (found.ok()) {
    WriterLock owners_lock(owners_mutex_);
    owners_.at(info.owner).kind = Kind::kRemoved;
  }
  return info;
}

absl::StatusOr<DocumentInfo> RocksStore::ChangeMetadata(const std::string& id,
                                                        const MetadataChange& change) {
  MutexLock lock(catalog_mutex_);
  ASSIGN_OR_RETURN(DocumentInfo info, Get(id));
  ASSIGN_OR_RETURN(std::string metadata, change(info.metadata));
  if (metadata == info.metadata) return info;
  info.metadata = std::move(metadata);
  const std::string key = DocumentKey(id);
  Batch batch;
  PutCatalog(key, EncodeDocument(key, info), &batch);
  RETURN_IF_ERROR(WriteCatalog(batch, catalog_, DocumentName(id)));
  return info;
}

absl::Status RocksStore::Free(OwnerId owner) {
  MutexLock lock(catalog_mutex_);
  if (Is(owner, Kind::kRemoved)) return FreeRecords(owner);
  return FindOwner(owner).ok() ? StillInUse(owner) : absl::OkStatus();  // freed before
}

// The mark of removal goes last, after the space is back, so that a crash at any point only means
// that the next open starts over.
absl::Status RocksStore::FreeRecords(OwnerId owner) {
  {
    WriterLock lock(owners_mutex_);
    owners_.erase(owner);
  }
  const std::string begin = OwnerKey(owner);
  const std::string end = OwnerKey(NextOwner(owner));
  RETURN_IF_ERROR(database_->DropRange(kDocumentFamilies, begin, end));
  cleaner_.Add([this, owner, begin, end](std::atomic<bool>* canceled) -> absl::Status {
    absl::Status compacted;
    for (const Family f : kDocumentFamilies) {
      absl::Status family = database_->Compact(f, begin, end, canceled);
      // A mark with nothing below it is not compacted but moved down, as a table of its own, and
      // would stay there for ever. No record has the key `end`.
      if (family.ok()) family = database_->DropTables(f, begin, end);
      compacted.Update(family);
    }
    RETURN_IF_ERROR(compacted);
    RETURN_IF_ERROR(database_->Flush());  // the log holds a copy of what was written lately
    Batch batch(/*uses_reserve=*/true);
    batch.Delete(Family::kCatalog, RemovedKey(owner));
    batch.Delete(Family::kIngests, ResumeKey(owner));
    return database_->Write(batch, "delete");
  });
  return absl::OkStatus();
}

absl::Status RocksStore::AbandonIngest(const std::string& id) {
  std::shared_ptr<Ingest> ingest;
  OwnerId owner{};
  {
    ReaderLock lock(owners_mutex_);
    const auto found = ingest_ids_.find(id);
    if (found != ingest_ids_.end()) {
      owner = found->second;
      ingest = ingests_.at(owner);
    }
  }
  if (ingest == nullptr) return AbandonDamaged(id);
  MutexLock ingest_lock(ingest->mutex);
  MutexLock lock(catalog_mutex_);
  if (ingest->done) return NoIngest(id);
  const std::string removed = RemovedKey(owner);
  Batch batch(/*uses_reserve=*/true);
  batch.Delete(Family::kIngests, IngestKey(id));
  batch.Delete(Family::kIngests, ResumeKey(owner));
  batch.Put(Family::kCatalog, removed, EncodeRemoved(removed, MakeDocument(ingest->state)));
  RETURN_IF_ERROR(WriteCatalog(batch, catalog_, "abandoning an ingest"));
  {
    WriterLock owners_lock(owners_mutex_);
    ingest->done = true;
    ingests_.erase(owner);
    ingest_ids_.erase(id);
  }
  return FreeRecords(owner);
}

absl::Status RocksStore::AbandonDamaged(const std::string& id) {
  MutexLock lock(catalog_mutex_);
  const std::string what = IngestName(id);
  // One that was begun since the caller looked is not damaged: it is none of this call's.
  const bool begun = [&] {
    ReaderLock owners_lock(owners_mutex_);
    return ingest_ids_.contains(id);
  }();
  const auto record = database_->Get(Family::kIngests, IngestKey(id), what);
  if (begun || absl::IsNotFound(record.status())) return NoIngest(id);
  Batch batch(/*uses_reserve=*/true);
  batch.Delete(Family::kIngests, IngestKey(id));
  return database_->Write(batch, what);
}

absl::StatusOr<OwnerId> RocksStore::NewSessionOwner() {
  OwnerId owner;
  {
    MutexLock lock(numbers_mutex_);
    ASSIGN_OR_RETURN(owner, NewOwnerLocked());
    sessions_.insert(owner);
  }
  WriterLock owners_lock(owners_mutex_);
  owners_.emplace(owner, Owner(Kind::kSession, {}));
  return owner;
}

absl::Status RocksStore::PutSessionChunk(ChunkRef ref, const ChunkRecord& chunk) {
  RETURN_IF_ERROR(CheckChunk(chunk, ref.index, 0));
  if (!Is(ref.owner, Kind::kSession) || ref.index < 0) return NoSessionFor(ref);
  const std::string key = PieceKey(ref.owner, ref.index);
  const std::string record = EncodeChunk(key, chunk);
  Batch batch;
  batch.Put(Family::kSessions, key, record);
  RETURN_IF_ERROR(
      database_->Write(batch, PieceName("chunk", ref.owner, ref.index), Durability::kNone));
  WriterLock lock(owners_mutex_);
  const auto found = owners_.find(ref.owner);
  if (found != owners_.end()) found->second.bytes += static_cast<int64_t>(record.size());
  return absl::OkStatus();
}

absl::Status RocksStore::FreeSession(OwnerId owner) {
  MutexLock lock(catalog_mutex_);
  const auto known = FindOwner(owner);
  if (!known.ok()) return absl::OkStatus();
  if (known->kind != Kind::kSession) return NotASession(owner);
  {
    WriterLock owners_lock(owners_mutex_);
    owners_.erase(owner);
  }
  RETURN_IF_ERROR(database_->DropRange(std::array{Family::kSessions}, OwnerKey(owner),
                                       OwnerKey(NextOwner(owner)), Durability::kNone));
  freed_session_bytes_ += known->bytes;
  ++freed_sessions_;
  MutexLock numbers_lock(numbers_mutex_);
  sessions_.erase(owner);
  if (freed_session_bytes_ >= kSessionCompactionBytes ||
      freed_sessions_ >= kSessionCompactionCount) {
    freed_session_bytes_ = freed_sessions_ = 0;
    const OwnerId oldest = sessions_.empty() ? OwnerId{next_owner_} : *sessions_.begin();
    cleaner_.Add([this, oldest](std::atomic<bool>* canceled) -> absl::Status {
      RETURN_IF_ERROR(database_->Compact(Family::kSessions, "", std::string(8, '\xff'), canceled));
      return database_->DropTables(Family::kSessions, "", OwnerKey(oldest));
    });
  }
  return absl::OkStatus();
}

}  // namespace recollect::store::rocks
