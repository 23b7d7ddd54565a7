// Head objects, the catalog's documents, and freeing: what the store and the scrub share.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/format.h"
#include "store/rados/store_impl.h"
#include "store/store_errors.h"

namespace recollect::store::rados {

absl::StatusOr<Head> ReadHead(Pool& pool, OwnerId owner) {
  const std::string what = absl::StrCat("head of ", OwnerName(owner));
  auto read = pool.Get(
      HeadName(owner),
      {kEpochKey, kRemovedKey, kProgressKey, kCursorKey, kFinalKey, kFinalCursorKey, kIndexKey},
      what);
  if (absl::IsNotFound(read.status())) return NoOwner(owner);
  RETURN_IF_ERROR(read.status());
  std::map<std::string, std::string>& found = *read;
  Head head;
  head.epoch = found[kEpochKey];
  head.removed = !found[kRemovedKey].empty();
  head.committed = !found[kProgressKey].empty();
  if (head.committed) {
    ASSIGN_OR_RETURN(head.state, DecodeIngest(kProgressKey, found[kProgressKey], what));
    ASSIGN_OR_RETURN(head.cursor, DecodeCursor(kCursorKey, found[kCursorKey], what));
  }
  head.is_final = !found[kFinalKey].empty();
  if (head.is_final) {
    ASSIGN_OR_RETURN(head.document, DecodeDocument(kFinalKey, found[kFinalKey], what));
    ASSIGN_OR_RETURN(head.final_cursor,
                     DecodeCursor(kFinalCursorKey, found[kFinalCursorKey], what));
  }
  head.has_index = !found[kIndexKey].empty();
  if (head.has_index) {
    ASSIGN_OR_RETURN(head.index, DecodeIndexHead(kIndexKey, found[kIndexKey], what));
  }
  return head;
}

absl::StatusOr<std::shared_ptr<Layout>> ReadLayout(Pool& pool, OwnerId owner,
                                                   const CursorRecord& cursor, Sizes sizes) {
  auto layout = std::make_shared<Layout>(owner);
  int64_t commit = 0;
  absl::Status bad;
  const std::string name = absl::StrCat("extents of ", OwnerName(owner));
  if (cursor.commits > 0) {
    RETURN_IF_ERROR(pool.Scan(HeadName(owner), "", kExtentsPrefix, 256, name,
                              [&](const std::string& key, std::string value) {
                                // "epoch" begins with the same letter, and is shorter.
                                if (key.size() != ExtentsKey(0).size()) return true;
                                if (commit == cursor.commits) return false;
                                const std::string what = absl::StrCat(name, ", commit ", commit);
                                const auto extents = DecodeExtents(key, value, what);
                                if (!extents.ok()) {
                                  bad = extents.status();
                                } else if (key != ExtentsKey(commit)) {
                                  bad = Missing(what);
                                } else {
                                  layout->Add(*extents, {});
                                }
                                ++commit;
                                return bad.ok();
                              }));
  }
  RETURN_IF_ERROR(bad);
  if (commit != cursor.commits) {
    return absl::DataLossError(
        absl::StrCat(name, ": ", commit, " commits, expected ", cursor.commits));
  }
  layout->Add({}, std::move(sizes));
  return layout;
}

std::vector<std::string> IndexObjects(OwnerId owner, const IndexHeadRecord& index) {
  std::vector<std::string> out;
  for (int64_t i = 0; i * kIndexPieceBytes < index.total_bytes; ++i) {
    out.push_back(IndexPieceName(owner, index.generation, i));
  }
  return out;
}

std::vector<std::string> StateObjects(OwnerId owner, uint64_t epoch, const DocumentSizes& of) {
  std::vector<std::string> out;
  for (int64_t i = 0; i < StateParts(of.state_bytes); ++i) {
    out.push_back(StatePartName(owner, epoch, of.first_state_part + i));
  }
  return out;
}

absl::StatusOr<std::vector<std::string>> ObjectsOf(Pool& pool, OwnerId owner, const Head& head) {
  std::set<std::string> out;
  const auto add = [&](const std::vector<std::string>& objects) {
    out.insert(objects.begin(), objects.end());
  };
  const auto add_data = [&](const CursorRecord& cursor, const DocumentSizes& of) -> absl::Status {
    ASSIGN_OR_RETURN(const auto layout, ReadLayout(pool, owner, cursor, {}));
    add(layout->Objects());
    add(StateObjects(owner, cursor.state_epoch, of));
    return absl::OkStatus();
  };
  if (head.committed) RETURN_IF_ERROR(add_data(head.cursor, head.state.progress));
  if (head.is_final) RETURN_IF_ERROR(add_data(head.final_cursor, head.document));
  if (head.has_index) add(IndexObjects(owner, head.index));
  return std::vector<std::string>(out.begin(), out.end());
}

absl::Status ScanEntries(Pool& pool, absl::string_view prefix, const std::string& after,
                         int64_t page,
                         const std::function<bool(const std::string&, const std::string&)>& visit) {
  const absl::Status scanned =
      pool.Scan(kCatalogObject, after, std::string(prefix), page, "catalog", visit);
  return absl::IsNotFound(scanned) ? absl::OkStatus() : scanned;  // nothing was ever put there
}

absl::Status ScanCatalog(
    Pool& pool, const std::string& after, int64_t page,
    const std::function<bool(const std::string&, const absl::StatusOr<DocumentInfo>&)>& visit) {
  return ScanEntries(pool, kDocumentPrefix, DocumentKey(after), page,
                     [&](const std::string& key, const std::string& value) {
                       const std::string id = key.substr(kDocumentPrefix.size());
                       return visit(id, DecodeDocument(key, value, DocumentName(id)));
                     });
}

absl::StatusOr<std::set<OwnerId>> RemovedOwners(Pool& pool) {
  std::set<OwnerId> out;
  RETURN_IF_ERROR(ScanEntries(pool, kRemovedPrefix, "", kCatalogPage,
                              [&](const std::string& key, const std::string&) {
                                out.insert(ParseOwner(key.substr(kRemovedPrefix.size())));
                                return true;
                              }));
  return out;
}

// The claim in the catalog comes first, so that an import can not be published any more; then the
// mark on the head, which refuses new pins and fences its writer. Whoever drops a pin afterwards
// looks at the mark, so that one of the two frees. The head goes last but one, and what a crash
// leaves is found by its record in the catalog.
absl::StatusOr<bool> FreeRemoved(Pool& pool, OwnerId owner) {
  const std::string what = absl::StrCat("freeing ", OwnerName(owner));
  const std::string removed = RemovedKey(owner), freeing = FreeingKey(owner);
  const std::string head_name = HeadName(owner);
  auto entry = pool.Get(kCatalogObject, {removed}, what);
  if (absl::IsNotFound(entry.status())) return true;
  RETURN_IF_ERROR(entry.status());
  if (!entry->contains(removed)) return true;  // freed before
  ASSIGN_OR_RETURN(const Holders writers, pool.LockHolders(head_name, kWriterLock));
  if (!writers.empty()) return false;  // an import
  const Change claim{.expect = {{removed, (*entry)[removed]}}, .set = {{freeing, "claimed"}}};
  const absl::Status claimed = pool.Apply(kCatalogObject, claim, what);
  if (absl::IsAborted(claimed)) return true;  // published, or freed by another
  RETURN_IF_ERROR(claimed);
  const Change mark{.set = {{kRemovedKey, "removed"}, {kEpochKey, "freed"}}};
  const absl::Status marked = pool.Apply(head_name, mark, what);
  if (!absl::IsNotFound(marked)) {
    RETURN_IF_ERROR(marked);
    ASSIGN_OR_RETURN(const Holders pins, pool.LockHolders(head_name, kPinLock));
    if (!pins.empty()) return false;
    ASSIGN_OR_RETURN(const Head head, ReadHead(pool, owner));
    const auto objects = ObjectsOf(pool, owner, head);
    // What can not be told from a damaged head is left to the scrub.
    if (!objects.ok() && !absl::IsDataLoss(objects.status())) return objects.status();
    if (objects.ok()) RETURN_IF_ERROR(pool.Remove(*objects, what));
    const std::string heads[] = {head_name};
    RETURN_IF_ERROR(pool.Remove(heads, what));
  }
  RETURN_IF_ERROR(pool.Apply(kCatalogObject, {.remove = {removed, freeing}}, what));
  return true;
}

}  // namespace recollect::store::rados
