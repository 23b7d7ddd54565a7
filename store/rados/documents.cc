// The catalog, pins and freeing. All entries of the catalog are keys of one
// object, so that a change of several is one operation: what is published or removed is so at once
// for every server, and nobody keeps a copy that could be old.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "store/format.h"
#include "store/rados/store_impl.h"
#include "store/store_errors.h"

namespace recollect::store::rados {
absl::StatusOr<DocumentInfo> RadosStore::Get(const std::string& id) {
  ASSIGN_OR_RETURN(const auto entries, CatalogEntries(id));
  return DocumentIn(entries, id);
}

absl::StatusOr<std::vector<DocumentInfo>> RadosStore::List(const std::string& after,
                                                           int64_t limit) {
  std::vector<DocumentInfo> out;
  if (limit <= 0) return out;
  RETURN_IF_ERROR(ScanCatalog(*pool_, after, std::min(limit, kCatalogPage),
                              [&](const std::string& id, const absl::StatusOr<DocumentInfo>& info) {
                                out.push_back(Listed(id, info));
                                return static_cast<int64_t>(out.size()) < limit;
                              }));
  return out;
}

absl::Status RadosStore::ChangeCatalog(Change change, absl::string_view what) {
  change.create = true;
  return pool_->Apply(kCatalogObject, change, what);
}

absl::StatusOr<DocumentInfo> RadosStore::Remove(const std::string& id) {
  const std::string key = DocumentKey(id);
  while (true) {
    ASSIGN_OR_RETURN(const auto entries, CatalogEntries(id));
    if (!entries.contains(key)) return NoDocument(id);
    const absl::StatusOr<DocumentInfo> found = DocumentIn(entries, id);
    const DocumentInfo info = Listed(id, found);
    Change change{.expect = {{key, entries.at(key)}}, .remove = {key}};
    if (found.ok()) {
      const std::string removed = RemovedKey(info.owner);
      change.set[removed] = EncodeRemoved(removed, info);
    }
    const absl::Status changed = ChangeCatalog(std::move(change), DocumentName(id));
    if (absl::IsAborted(changed)) continue;  // removed by another, and perhaps published anew
    RETURN_IF_ERROR(changed);
    return info;
  }
}

absl::StatusOr<DocumentInfo> RadosStore::ChangeMetadata(const std::string& id,
                                                        const MetadataChange& change) {
  const std::string key = DocumentKey(id);
  while (true) {
    ASSIGN_OR_RETURN(DocumentInfo info, Get(id));
    const std::string before = EncodeDocument(key, info);
    ASSIGN_OR_RETURN(info.metadata, change(info.metadata));
    const std::string after = EncodeDocument(key, info);
    if (after == before) return info;
    const absl::Status changed =
        ChangeCatalog({.expect = {{key, before}}, .set = {{key, after}}}, DocumentName(id));
    if (absl::IsAborted(changed)) continue;  // changed or removed by another
    RETURN_IF_ERROR(changed);
    return info;
  }
}

void RadosStore::Forget(OwnerId owner) {
  MutexLock lock(mutex_);
  layouts_.erase(owner);
}

absl::Status RadosStore::Free(OwnerId owner) {
  const std::string what = OwnerName(owner);
  const std::string removed = RemovedKey(owner);
  auto entry = pool_->Get(kCatalogObject, {removed}, what);
  if (absl::IsNotFound(entry.status())) return absl::OkStatus();
  RETURN_IF_ERROR(entry.status());
  if (!entry->contains(removed)) {
    const bool freed_before = absl::IsNotFound(ReadHead(*pool_, owner).status());
    return freed_before ? absl::OkStatus() : StillInUse(owner);
  }
  Forget(owner);
  ASSIGN_OR_RETURN(const bool freed, FreeRemoved(*pool_, owner));
  if (freed) return absl::OkStatus();
  MutexLock lock(mutex_);
  pending_.insert(owner);
  return absl::OkStatus();
}

void RadosStore::FreeOrWait(OwnerId owner) {
  const absl::StatusOr<bool> freed = FreeRemoved(*pool_, owner);
  LogIfFailed(freed.status());
  MutexLock lock(mutex_);
  if (freed.ok() && *freed) {
    pending_.erase(owner);
  } else {
    pending_.insert(owner);
  }
}

void RadosStore::FreePending() {
  std::set<OwnerId> pending;
  {
    MutexLock lock(mutex_);
    pending = pending_;
  }
  for (const OwnerId owner : pending) FreeOrWait(owner);
}

absl::Status RadosStore::TakePin(OwnerId owner) {
  const std::string head = HeadName(owner);
  const std::string what = OwnerName(owner);
  // The lock would make the object.
  RETURN_IF_ERROR(pool_->Get(head, {kRemovedKey}, what).status());
  RETURN_IF_ERROR(leases_.Take(head, kPinLock, /*shared=*/true));
  auto now = pool_->Get(head, {kEpochKey, kRemovedKey}, what);
  if (now.ok() && !now->contains(kRemovedKey) && now->contains(kEpochKey)) return absl::OkStatus();
  leases_.Drop(head, kPinLock);
  if (now.ok() && !now->contains(kEpochKey)) {  // the lock has made it again
    pool_->Apply(head, {.expect = {{kEpochKey, ""}}, .remove_object = true}, what).IgnoreError();
  }
  RETURN_IF_ERROR(now.status());
  return WasRemoved(owner);
}

absl::Status RadosStore::Pin(OwnerId owner) {
  MutexLock lock(pins_mutex_);
  int& count = pins_[owner];
  if (count == 0) {
    absl::Status taken = TakePin(owner);
    if (!taken.ok()) {
      pins_.erase(owner);
      return taken;
    }
  }
  ++count;
  return absl::OkStatus();
}

// Of a server that stood still, or was cut off: until somebody deletes the document, it is not too
// late.
void RadosStore::TakeLapsedPins() {
  std::vector<OwnerId> lapsed;
  {
    MutexLock lock(pins_mutex_);
    for (const auto& [owner, count] : pins_) {
      if (!leases_.Holds(HeadName(owner), kPinLock)) lapsed.push_back(owner);
    }
  }
  for (const OwnerId owner : lapsed) {
    MutexLock lock(pins_mutex_);
    if (pins_.contains(owner)) TakePin(owner).IgnoreError();  // tried again with the next round
  }
}

void RadosStore::Unpin(OwnerId owner) {
  const std::string head = HeadName(owner);
  {
    MutexLock lock(pins_mutex_);
    const auto found = pins_.find(owner);
    if (found == pins_.end() || --found->second > 0) return;
    pins_.erase(found);
    leases_.Drop(head, kPinLock);
  }
  const auto mark = pool_->Get(head, {kRemovedKey}, "unpinning");
  if (!mark.ok() || !mark->contains(kRemovedKey)) return;
  Forget(owner);
  LogIfFailed(FreeRemoved(*pool_, owner).status());
}

}  // namespace recollect::store::rados
