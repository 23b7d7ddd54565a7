// The catalog in the database: published documents by id, how many there were, and what the
// database says of itself. Each record lies in two families or more, so that one damaged block
// costs nothing.
#ifndef RECOLLECT_STORE_ROCKS_CATALOG_H_
#define RECOLLECT_STORE_ROCKS_CATALOG_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/document_store.h"
#include "store/format.h"
#include "store/rocks/database.h"

namespace recollect::store {

void PutCatalog(const std::string& key, const std::string& record, Batch* batch);
void DeleteCatalog(const std::string& key, Batch* batch);

void PutMeta(const MetaRecord& meta, Batch* batch);
// NOT_FOUND in a new database; codes of DecodeMeta.
absl::StatusOr<MetaRecord> GetMeta(Database& database);

// NOT_FOUND; DATA_LOSS when both records are damaged.
absl::StatusOr<DocumentInfo> GetDocument(Database& database, const std::string& id);

// Calls visit(id, document) for ids > `after` (all, if empty) in order, until it returns false. A
// document of which both records are damaged comes as DATA_LOSS. DATA_LOSS itself when documents
// may be missing.
absl::Status ScanDocuments(
    Database& database, const std::string& after,
    const std::function<bool(absl::string_view, const absl::StatusOr<DocumentInfo>&)>& visit);

// What the catalog says of itself. NOT_FOUND in a database of version 1.
absl::StatusOr<CatalogRecord> GetCatalogRecord(Database& database);
// What is found in it, with `changes` as many.
absl::StatusOr<CatalogRecord> CountDocuments(Database& database, uint64_t changes);

// DATA_LOSS when the catalog misses changes that the head knows to have been acknowledged, or has
// other documents than it says. Codes of GetMeta.
absl::Status CheckCatalog(Database& database);

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_ROCKS_CATALOG_H_
