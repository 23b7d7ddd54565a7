#include "store/rocks/rocks_store.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/log.h"
#include "base/status.h"
#include "store/rocks/db/data_directory.h"
#include "store/rocks/documents/catalog.h"
#include "store/rocks/documents/store_impl.h"

namespace recollect::store::rocks {

absl::StatusOr<std::unique_ptr<DocumentStore>> OpenRocksStore(const RocksOptions& options) {
  return RocksStore::Open(options, nullptr);
}

RocksStore::RocksStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}

absl::StatusOr<std::unique_ptr<DocumentStore>> RocksStore::Open(const RocksOptions& options,
                                                                rocksdb::Env* env) {
  const std::string what = absl::StrCat("data directory ", options.directory);
  RETURN_IF_ERROR(PrepareDataDirectory(options.directory));
  // Before anything is written or deleted: what is refused stays as it is.
  const absl::Status whole = CheckWhole(options, env);
  if (options.accept_data_loss && absl::IsDataLoss(whole)) {
    LogWarning("continuing without the lost data: {}", std::string(whole.message()));
  } else if (!whole.ok()) {
    return absl::Status(whole.code(), absl::StrCat(whole.message(), "; no file was changed"));
  }
  ASSIGN_OR_RETURN(auto database, Database::Open(options, env));
  std::unique_ptr<RocksStore> store(new RocksStore(std::move(database)));
  RETURN_IF_ERROR(Annotate(store->Load(), what));
  return std::unique_ptr<DocumentStore>(std::move(store));
}

absl::Status RocksStore::CheckWhole(const RocksOptions& options, rocksdb::Env* env) {
  ASSIGN_OR_RETURN(const auto database, Database::OpenToRead(options, env));
  if (database == nullptr) return absl::OkStatus();
  const std::string what = absl::StrCat("data directory ", options.directory);
  RETURN_IF_ERROR(Annotate(CheckCatalog(*database), what));
  return Annotate(database->CheckTables(), what);
}

namespace {

// A damaged block costs the records in it, when they are read, and nothing else.
absl::Status Passable(const absl::Status& status, bool* damaged) {
  if (!absl::IsDataLoss(status)) return status;
  LogError("{}", std::string(status.message()));
  *damaged = true;
  return absl::OkStatus();
}

}  // namespace

absl::Status RocksStore::Load() {
  const absl::StatusOr<MetaRecord> meta = GetMeta(*database_);
  std::vector<OwnerId> unfreed;
  bool damaged = false;
  if (meta.ok()) {
    next_owner_ = owner_limit_ = meta->next_owner;
    if (meta->database_version < kDatabaseVersion) RETURN_IF_ERROR(Upgrade());
  } else if (absl::IsNotFound(meta.status())) {
    // A new database has nothing at all; one with documents but no meta record is not ours.
    bool empty = true;
    const auto saw = [&](absl::string_view, absl::string_view) { return empty = false; };
    RETURN_IF_ERROR(database_->Scan(Family::kCatalog, "", "", saw));
    if (!empty) return absl::DataLossError("meta record of the database: missing");
    RETURN_IF_ERROR(NewOwner().status());
  } else {
    return meta.status();
  }
  RETURN_IF_ERROR(LoadCatalog(&unfreed, &damaged));
  RETURN_IF_ERROR(LoadIngests(&damaged));
  std::vector<OwnerId> unnamed;
  RETURN_IF_ERROR(Passable(FindUnnamed(unfreed, &unnamed), &damaged));
  // The record of reserved numbers may have been in a part of the log that is lost: RocksDB passes
  // over zeros in it.
  OwnerId last{0};
  for (const auto& [owner, unused] : owners_) last = std::max(last, owner);
  for (const OwnerId owner : unfreed) last = std::max(last, owner);
  for (const OwnerId owner : unnamed) last = std::max(last, owner);
  if (next_owner_ <= static_cast<uint64_t>(last))
    next_owner_ = owner_limit_ = static_cast<uint64_t>(last) + 1;
  // While a record is damaged, what seems to belong to nobody could be what it named.
  if (!damaged) unfreed.insert(unfreed.end(), unnamed.begin(), unnamed.end());
  for (const OwnerId owner : unfreed) RETURN_IF_ERROR(FreeRecords(owner));
  return absl::OkStatus();
}

absl::Status RocksStore::Upgrade() {
  Batch batch(/*uses_reserve=*/true);
  const auto document = [&](absl::string_view key, absl::string_view value) {
    PutCatalog(std::string(key), std::string(value), &batch);
    return true;
  };
  RETURN_IF_ERROR(
      database_->Scan(Family::kCatalog, std::string(kDocumentPrefix), kDocumentPrefix, document));
  PutMeta({kDatabaseVersion, next_owner_}, &batch);
  return database_->Write(batch, "upgrade");
}

absl::Status RocksStore::LoadCatalog(std::vector<OwnerId>* unfreed, bool* damaged) {
  CatalogRecord found;
  RETURN_IF_ERROR(ScanDocuments(
      *database_, "", [&](absl::string_view id, const absl::StatusOr<DocumentInfo>& info) {
        found.Add(DocumentKey(id));
        // A damaged record costs its own document only: Get answers DATA_LOSS for it, List says so.
        if (info.ok()) {
          WriterLock lock(owners_mutex_);
          owners_.emplace(info->owner, Owner(Kind::kDocument, *info));
        } else {
          LogError("{}", std::string(info.status().message()));
          *damaged = true;
        }
        return true;
      }));
  const auto says = GetCatalogRecord(*database_);
  if (!absl::IsNotFound(says.status())) RETURN_IF_ERROR(says.status());
  // Not the same: a database that is new or of version 1, or losses were accepted.
  found.changes = std::max(says.ok() ? says->changes : 0, database_->head().catalog().changes);
  if (!says.ok() || *says != found) {
    Batch batch(/*uses_reserve=*/true);
    RETURN_IF_ERROR(WriteCatalog(batch, found, "catalog"));
  } else {
    catalog_ = found;
    database_->head().SetCatalog(found);
  }
  const auto removed = [&](absl::string_view key, absl::string_view) {
    unfreed->push_back(ParseOwner(key.substr(kRemovedPrefix.size())));
    return true;
  };
  return Passable(
      database_->Scan(Family::kCatalog, std::string(kRemovedPrefix), kRemovedPrefix, removed),
      damaged);
}

absl::Status RocksStore::LoadIngests(bool* damaged) {
  const auto take = [&](absl::string_view key, absl::string_view value) {
    auto state = DecodeIngest(key, value, IngestName(key.substr(1)));
    if (!state.ok()) {
      LogError("{}", std::string(state.status().message()));
      *damaged = true;
      return true;
    }
    const IngestProgress& progress = state->progress;
    const OwnerId owner = progress.owner;
    WriterLock lock(owners_mutex_);
    owners_.emplace(owner, Owner(Kind::kIngest, progress));
    ingest_ids_.emplace(progress.id, owner);
    auto ingest = std::make_shared<Ingest>();
    ingest->state = *std::move(state);
    ingests_.emplace(owner, std::move(ingest));
    return true;
  };
  return Passable(
      database_->Scan(Family::kIngests, std::string(kIngestPrefix), kIngestPrefix, take), damaged);
}

absl::Status RocksStore::FindUnnamed(const std::vector<OwnerId>& unfreed,
                                     std::vector<OwnerId>* unnamed) {
  std::set<OwnerId> known(unfreed.begin(), unfreed.end());
  for (const auto& [owner, unused] : owners_) known.insert(owner);
  for (const Family f : kDocumentFamilies) {
    for (OwnerId next{0};;) {
      bool found = false;
      const auto first = [&](absl::string_view key, absl::string_view) {
        next = ParseOwner(key.substr(0, sizeof(OwnerId)));
        found = true;
        return false;
      };
      RETURN_IF_ERROR(database_->Scan(f, OwnerKey(next), "", first));
      if (!found) break;
      if (known.insert(next).second) unnamed->push_back(next);
      next = NextOwner(next);
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::store::rocks
