// Finds and frees what nobody owns: what a writer that was cut off wrote and never committed.
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/format.h"
#include "store/rados/store_impl.h"

namespace recollect::store::rados {
namespace {

// Owners that the catalog names, and among them those of unfinished ingests and of removed
// documents.
struct Owners {
  std::set<OwnerId> all, ingests, removed;
};

// An entry of the catalog moves while it is read, from ingests to documents to removed ones, or
// from there to documents: the order catches every one of them.
absl::StatusOr<Owners> CatalogOwners(Pool& pool, RadosCheck* check) {
  Owners out;
  const auto scan_documents = [&] {
    check->documents = 0;
    check->problems.clear();
    return ScanCatalog(pool, "", kCatalogPage,
                       [&](const std::string&, const absl::StatusOr<DocumentInfo>& document) {
                         ++check->documents;
                         if (document.ok()) {
                           out.all.insert(document->owner);
                         } else {
                           check->problems.emplace_back(document.status().message());
                         }
                         return true;
                       });
  };
  RETURN_IF_ERROR(scan_documents());
  RETURN_IF_ERROR(ScanEntries(pool, kWriterPrefix, "", kCatalogPage,
                              [&](const std::string&, const std::string& value) {
                                OwnerId owner{};
                                uint64_t epoch = 0;
                                if (ParseWriter(value, &owner, &epoch)) out.ingests.insert(owner);
                                return true;
                              }));
  ASSIGN_OR_RETURN(out.removed, RemovedOwners(pool));
  RETURN_IF_ERROR(scan_documents());
  out.all.insert(out.ingests.begin(), out.ingests.end());
  out.all.insert(out.removed.begin(), out.removed.end());
  return out;
}

// What a writer that stands still has written and not committed must not go while it could still
// commit. False: somebody writes the ingest.
absl::StatusOr<bool> FenceWriter(Pool& pool, OwnerId owner, const std::string& epoch) {
  const std::string head = HeadName(owner);
  const absl::Status locked = pool.TakeLock(head, kWriterLock, /*shared=*/false);
  if (absl::IsAborted(locked)) return false;
  RETURN_IF_ERROR(locked);
  // Who comes next sets an epoch of its own.
  const Change fence{.expect = {{kEpochKey, epoch}},
                     .set = {{kEpochKey, absl::StrCat(epoch, " ended")}}};
  const absl::Status fenced = pool.Apply(head, fence, "repair");
  pool.DropLock(head, kWriterLock);
  if (absl::IsAborted(fenced) || absl::IsNotFound(fenced)) return false;
  RETURN_IF_ERROR(fenced);
  return true;
}

}  // namespace

absl::StatusOr<RadosCheck> CheckRadosStore(const RadosOptions& options, bool repair) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Pool> pool, Pool::Connect(options));
  RETURN_IF_ERROR(CheckPool(*pool, /*makes=*/false));
  RadosCheck check;
  // The list comes first: the catalog names an owner before there are objects of it.
  std::map<OwnerId, std::set<std::string>> objects;
  RETURN_IF_ERROR(pool->List([&](const std::string& name) {
    ++check.objects;
    if (const auto owner = OwnerOfObject(name)) objects[*owner].insert(name);
  }));
  ASSIGN_OR_RETURN(const Owners owners, CatalogOwners(*pool, &check));
  if (repair) {
    for (const OwnerId owner : owners.removed) {
      ASSIGN_OR_RETURN(const bool freed, FreeRemoved(*pool, owner));
      if (freed) objects.erase(owner);
    }
  }
  for (const auto& [owner, names] : objects) {
    const std::string head_name = HeadName(owner);
    ASSIGN_OR_RETURN(const Holders writers, pool->LockHolders(head_name, kWriterLock));
    // What a living writer has put down and not committed yet can not be told from what is left.
    ASSIGN_OR_RETURN(const Holders indexers, pool->LockHolders(head_name, kIndexLock));
    if (!writers.empty() || !indexers.empty()) continue;
    const absl::StatusOr<Head> head = ReadHead(*pool, owner);
    if (!owners.all.contains(owner)) {
      // Its writer, if there is one, is fenced before anything goes.
      if (repair && head.ok()) {
        RETURN_IF_ERROR(pool->Apply(head_name, {.set = {{kEpochKey, "freed"}}}, "repair"));
      }
      check.orphans.insert(check.orphans.end(), names.begin(), names.end());
      continue;
    }
    if (!head.ok()) {
      check.problems.emplace_back(head.status().message());
      continue;
    }
    const auto used = ObjectsOf(*pool, owner, *head);
    if (!used.ok()) {
      check.problems.emplace_back(used.status().message());
      continue;
    }
    const std::set<std::string> needed(used->begin(), used->end());
    std::vector<std::string> unused;
    for (const std::string& name : names) {
      if (name != head_name && !needed.contains(name)) unused.push_back(name);
    }
    if (repair && !unused.empty() && owners.ingests.contains(owner)) {
      ASSIGN_OR_RETURN(const bool fenced, FenceWriter(*pool, owner, head->epoch));
      if (!fenced) continue;
    }
    check.orphans.insert(check.orphans.end(), unused.begin(), unused.end());
  }
  // A document lacks what its final record refers to; looked at again, since it may have been
  // removed, or have got another index, since the list was made.
  RETURN_IF_ERROR(ScanCatalog(
      *pool, "", kCatalogPage,
      [&](const std::string& id, const absl::StatusOr<DocumentInfo>& document) {
        if (!document.ok()) return true;
        const absl::StatusOr<Head> head = ReadHead(*pool, document->owner);
        if (!head.ok()) {
          check.problems.push_back(absl::StrCat(DocumentName(id), ": ", head.status().message()));
          return true;
        }
        Head only = *head;
        only.committed = false;
        const auto used = ObjectsOf(*pool, document->owner, only);
        const auto found = objects.find(document->owner);
        if (!used.ok() || found == objects.end()) return true;
        for (const std::string& name : *used) {
          if (found->second.contains(name)) continue;
          ReadRequest there[] = {{name, 0, 1}};
          pool->Read(there);
          if (absl::IsNotFound(there[0].status))
            check.problems.push_back(absl::StrCat(DocumentName(id), ": lacks object ", name));
        }
        return true;
      }));
  if (repair) RETURN_IF_ERROR(pool->Remove(check.orphans, "repair"));
  return check;
}

}  // namespace recollect::store::rados
