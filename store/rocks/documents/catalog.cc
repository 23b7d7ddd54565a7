#include "store/rocks/documents/catalog.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/rocks/db/status.h"

namespace recollect::store::rocks {
namespace {

// The second has room for it because ingests are few; their tables are other files.
constexpr Family kCatalogFamilies[] = {Family::kCatalog, Family::kIngests};
constexpr Family kMetaFamilies[] = {Family::kMeta, Family::kCatalog, Family::kIngests};

// What the first place that can be read says of a record; all say the same.
template <typename Decode>
auto GetFirst(Database& database, std::span<const Family> families, const std::string& key,
              const std::string& what, const Decode& decode) -> decltype(decode("", "", "")) {
  absl::Status damage;
  for (const Family f : families) {
    const auto record = database.Get(f, key, what);
    auto decoded = record.ok() ? decode(key, *record, what) : record.status();
    if (!absl::IsDataLoss(decoded.status())) return decoded;
    damage.Update(decoded.status());
  }
  return damage;
}

}  // namespace

void PutCatalog(const std::string& key, const std::string& record, Batch* batch) {
  for (const Family f : kCatalogFamilies) batch->Put(f, key, record);
}

void DeleteCatalog(const std::string& key, Batch* batch) {
  for (const Family f : kCatalogFamilies) batch->Delete(f, key);
}

void PutMeta(const MetaRecord& meta, Batch* batch) {
  const std::string record = EncodeMeta(MetaKey(), meta);
  for (const Family f : kMetaFamilies) batch->Put(f, MetaKey(), record);
}

absl::StatusOr<MetaRecord> GetMeta(Database& database) {
  const auto decode = [](absl::string_view key, absl::string_view record, absl::string_view) {
    return DecodeMeta(key, record);
  };
  return GetFirst(database, kMetaFamilies, MetaKey(), "meta record", decode);
}

absl::StatusOr<DocumentInfo> GetDocument(Database& database, const std::string& id) {
  return GetFirst(database, kCatalogFamilies, DocumentKey(id), DocumentName(id), DecodeDocument);
}

absl::Status ScanDocuments(
    Database& database, const std::string& after,
    const std::function<bool(absl::string_view, const absl::StatusOr<DocumentInfo>&)>& visit) {
  // Ids have no NUL, so this is the first key behind `after`.
  std::string from = DocumentKey(after) + (after.empty() ? "" : std::string(1, '\0'));
  const auto document = [&](absl::string_view key, absl::string_view value) {
    from = absl::StrCat(key, std::string(1, '\0'));
    const absl::string_view id = key.substr(kDocumentPrefix.size());
    auto info = DecodeDocument(key, value, DocumentName(id));
    if (absl::IsDataLoss(info.status())) info = GetDocument(database, std::string(id));
    return visit(id, info);
  };
  absl::Status damage;
  for (const Family f : kCatalogFamilies) {
    absl::Status scanned = database.Scan(f, from, kDocumentPrefix, document);
    if (!absl::IsDataLoss(scanned)) return scanned;
    damage.Update(scanned);
  }
  return damage;
}

absl::StatusOr<CatalogRecord> GetCatalogRecord(Database& database) {
  return GetFirst(database, kCatalogFamilies, CatalogKey(), "record of the catalog", DecodeCatalog);
}

absl::StatusOr<CatalogRecord> CountDocuments(Database& database, uint64_t changes) {
  CatalogRecord found{.changes = changes};
  RETURN_IF_ERROR(ScanDocuments(database, "", [&](absl::string_view id, const auto&) {
    found.Add(DocumentKey(id));
    return true;
  }));
  return found;
}

absl::Status CheckCatalog(Database& database) {
  const auto meta = GetMeta(database);
  if (!absl::IsNotFound(meta.status())) RETURN_IF_ERROR(meta.status());
  const CatalogRecord head = database.head().catalog();
  auto says = GetCatalogRecord(database);
  if (!absl::IsNotFound(says.status())) RETURN_IF_ERROR(says.status());
  const uint64_t changes = says.ok() ? says->changes : 0;
  ASSIGN_OR_RETURN(const CatalogRecord found, CountDocuments(database, changes));
  if (changes < head.changes) {
    return absl::DataLossError(absl::StrCat("the catalog has ", found.documents,
                                            " documents after ", changes,
                                            " changes, but there were ", head.documents, " after ",
                                            head.changes, ": what was written last is missing"));
  }
  if (says.ok() && found != *says) {
    return absl::DataLossError(absl::StrCat(
        "the catalog has ", found.documents, found.documents == says->documents ? " other" : "",
        " documents, expected ", says->documents, " after ", changes,
        " changes: some of what was written is missing"));
  }
  return absl::OkStatus();
}

}  // namespace recollect::store::rocks
