// Documents that were made elsewhere: written as an ingest is, but without a record that somebody
// could resume. Their owner is marked as removed until they are published.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/rocks/documents/store_impl.h"

namespace recollect::store::rocks {

absl::Status RocksStore::CheckAbsent(const std::string& id) {
  const auto published = Get(id);
  if (published.ok()) return absl::AlreadyExistsError(absl::StrCat(DocumentName(id), " exists"));
  if (!absl::IsNotFound(published.status())) return published.status();
  const bool ingested = [&] {
    ReaderLock lock(owners_mutex_);
    return ingest_ids_.contains(id);
  }();
  if (!ingested) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(DocumentName(id), ": an ingest of that id has begun and is not finished"));
}

absl::StatusOr<OwnerId> RocksStore::BeginImport(const DocumentInfo& document) {
  RETURN_IF_ERROR(CheckDocumentId(document.id));
  MutexLock lock(catalog_mutex_);
  RETURN_IF_ERROR(CheckAbsent(document.id));
  auto import = std::make_shared<Ingest>();
  import->import = true;
  IngestProgress& progress = import->state.progress;
  ASSIGN_OR_RETURN(progress.owner, NewOwner());
  progress.id = document.id;
  progress.fingerprint = document.fingerprint;
  progress.from_tokens = document.from_tokens;
  progress.pattern = document.pattern;
  const OwnerId owner = progress.owner;
  const std::string removed = RemovedKey(owner);
  Batch batch;
  batch.Put(Family::kCatalog, removed, EncodeRemoved(removed, MakeDocument(import->state, "", 0)));
  RETURN_IF_ERROR(database_->Write(batch, Database::Durability::kSynced,
                                   absl::StrCat("import of '", document.id, "'")));
  WriterLock owners_lock(owners_mutex_);
  owners_.emplace(owner, Owner{Kind::kIngest});
  ingests_.emplace(owner, std::move(import));
  return owner;
}

absl::Status RocksStore::AbandonImport(OwnerId owner) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Ingest> import, FindIngest(owner));
  MutexLock import_lock(import->mutex);
  MutexLock lock(catalog_mutex_);
  if (import->done || !import->import) return absl::NotFoundError("the import has ended");
  {
    WriterLock owners_lock(owners_mutex_);
    import->done = true;
    ingests_.erase(owner);
  }
  return FreeRecords(owner);
}

}  // namespace recollect::store::rocks
