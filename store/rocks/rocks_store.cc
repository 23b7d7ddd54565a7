#include "store/rocks/rocks_store.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "store/rocks/status.h"
#include "store/rocks/store_impl.h"

namespace recollect::store {

absl::StatusOr<std::unique_ptr<DocumentStore>> OpenRocksStore(const RocksOptions& options) {
  return RocksStore::Open(options, nullptr);
}

RocksStore::RocksStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}

absl::StatusOr<std::unique_ptr<DocumentStore>> RocksStore::Open(const RocksOptions& options,
                                                                rocksdb::Env* env) {
  ASSIGN_OR_RETURN(auto database, Database::Open(options, env));
  std::unique_ptr<RocksStore> store(new RocksStore(std::move(database)));
  RETURN_IF_ERROR(Annotate(store->Load(), absl::StrCat("data directory ", options.directory)));
  return std::unique_ptr<DocumentStore>(std::move(store));
}

absl::Status RocksStore::Load() {
  auto meta = database_->Get(Family::kMeta, MetaKey(), "meta record");
  std::vector<OwnerId> unfreed;
  if (meta.ok()) {
    ASSIGN_OR_RETURN(const MetaRecord record, DecodeMeta(MetaKey(), *meta));
    next_owner_ = owner_limit_ = record.next_owner;
    bool damaged = false;
    RETURN_IF_ERROR(LoadCatalog(&unfreed, &damaged));
    RETURN_IF_ERROR(LoadIngests(&damaged));
    // While a record is damaged, what seems to belong to nobody could be what it named.
    if (!damaged) {
      // A damaged block costs the record in it, when that is read, and nothing else.
      const absl::Status found = FindUnnamed(&unfreed);
      if (!absl::IsDataLoss(found)) RETURN_IF_ERROR(found);
      if (!found.ok()) LogError("{}", std::string(found.message()));
    }
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
  for (const OwnerId owner : unfreed) RETURN_IF_ERROR(FreeRecords(owner));
  return absl::OkStatus();
}

absl::Status RocksStore::LoadCatalog(std::vector<OwnerId>* unfreed, bool* damaged) {
  // A damaged record costs its own document only: Get answers DATA_LOSS for it, List says so.
  const auto document = [&](absl::string_view key, absl::string_view value) {
    const auto info = DecodeDocument(key, value, DocumentName(key.substr(1)));
    if (info.ok()) {
      owners_.emplace(info->owner, OwnerOf(Kind::kDocument, *info));
    } else {
      LogError("{}", std::string(info.status().message()));
      *damaged = true;
    }
    return true;
  };
  const auto removed = [&](absl::string_view key, absl::string_view) {
    unfreed->push_back(ParseOwner(key.substr(kRemovedPrefix.size())));
    return true;
  };
  RETURN_IF_ERROR(
      database_->Scan(Family::kCatalog, std::string(kDocumentPrefix), kDocumentPrefix, document));
  return database_->Scan(Family::kCatalog, std::string(kRemovedPrefix), kRemovedPrefix, removed);
}

absl::Status RocksStore::LoadIngests(bool* damaged) {
  return database_->Scan(Family::kIngests, std::string(kIngestPrefix), kIngestPrefix,
                         [&](absl::string_view key, absl::string_view value) {
                           auto state = DecodeIngest(key, value,
                                                     absl::StrCat("ingest '", key.substr(1), "'"));
                           if (!state.ok()) {
                             LogError("{}", std::string(state.status().message()));
                             *damaged = true;
                             return true;
                           }
                           const IngestProgress& progress = state->progress;
                           const OwnerId owner = progress.owner;
                           owners_.emplace(owner, OwnerOf(Kind::kIngest, progress));
                           ingest_ids_.emplace(progress.id, owner);
                           auto ingest = std::make_shared<Ingest>();
                           ingest->state = *std::move(state);
                           ingests_.emplace(owner, std::move(ingest));
                           return true;
                         });
}

absl::Status RocksStore::FindUnnamed(std::vector<OwnerId>* unnamed) {
  std::set<OwnerId> known(unnamed->begin(), unnamed->end());
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

}  // namespace recollect::store
