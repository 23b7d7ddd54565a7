// The catalog in the database: published documents by id, their count, and the database's own
// record. Each record is kept in two column families or more, so that one damaged block loses
// nothing.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/document_store.h"
#include "store/format.h"
#include "store/rocks/db/database.h"

namespace recollect::store::rocks {

void PutCatalog(const std::string& key, const std::string& record, Batch* batch);
void DeleteCatalog(const std::string& key, Batch* batch);

void PutMeta(const MetaRecord& meta, Batch* batch);
// NOT_FOUND in a new database; codes of DecodeMeta.
absl::StatusOr<MetaRecord> GetMeta(Database& database);

// NOT_FOUND; DATA_LOSS if both copies of the record are damaged.
absl::StatusOr<DocumentInfo> GetDocument(Database& database, const std::string& id);

// Calls visit(id, document) for ids > `after` (all, if empty) in order, until it returns false. A
// document of which both records are damaged is visited as DATA_LOSS. Returns DATA_LOSS if
// documents may be missing.
absl::Status ScanDocuments(
    Database& database, const std::string& after,
    const std::function<bool(absl::string_view, const absl::StatusOr<DocumentInfo>&)>& visit);

// The catalog's own record. NOT_FOUND in a database of version 1.
absl::StatusOr<CatalogRecord> GetCatalogRecord(Database& database);
// A record that counts the documents found, with `changes` as given.
absl::StatusOr<CatalogRecord> CountDocuments(Database& database, uint64_t changes);

// DATA_LOSS if the catalog lacks changes that the head records as acknowledged, or if its documents
// differ from those that its own record counts. Codes of GetMeta.
absl::Status CheckCatalog(Database& database);

}  // namespace recollect::store::rocks
