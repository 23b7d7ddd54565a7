// Documents that were made elsewhere: written as an ingest is, but without a record that somebody
// could resume. Their owner is marked as removed until they are published.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/rocks/documents/store_impl.h"
#include "store/store_errors.h"

namespace recollect::store::rocks {

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
  RETURN_IF_ERROR(database_->Write(batch, Database::Durability::kSynced,
                                   absl::StrCat("import of '", document.id, "'")));
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
