// Backups of a data directory: RocksDB's backup engine, whose directory shares unchanged tables
// between backups. A store makes them while it is in use (DocumentStore::Backup); the functions
// here need no store.
//
// The head (store/rocks/db/head.h) is no part of the database. A backup keeps the catalog's count
// as its metadata, and a restored directory gets a head of its own from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/document_store.h"

namespace recollect::store::rocks {

// Errors common to all: NOT_FOUND if `directory` has no backups, or none of that number (names
// those that there are). Number 0 is the latest.

// Oldest first, also those whose list of files is damaged.
absl::StatusOr<std::vector<BackupInfo>> ListBackups(const std::string& directory);

// Reads all files of the backup and compares sizes and checksums. DATA_LOSS names the file.
absl::StatusOr<BackupInfo> VerifyBackup(const std::string& directory, uint32_t number);

// Makes `data_directory`, which must not exist or be empty (FAILED_PRECONDITION), as it was when
// the backup was made. It appears as a whole, after checksums were compared and the store was
// opened once: until then everything lies beside it, in `data_directory` + ".restoring", which goes
// at the end. What a killed process leaves there is no data directory, and the next restore clears
// it away. FAILED_PRECONDITION: another restore is running there. DATA_LOSS names the file.
absl::StatusOr<BackupInfo> RestoreBackup(const std::string& directory, uint32_t number,
                                         const std::string& data_directory);

}  // namespace recollect::store::rocks

// For callers.
namespace recollect::store {
using rocks::ListBackups;
using rocks::RestoreBackup;
using rocks::VerifyBackup;
}  // namespace recollect::store
