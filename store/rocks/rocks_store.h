// DocumentStore on RocksDB. RocksDB's own headers stay in the .cc files and private headers here.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/document_store.h"

namespace recollect::store::rocks {

struct RocksOptions {
  std::string directory;     // created when missing
  bool sync_commits = true;  // a commit survives power loss, not only a crash of the process
  // Where OpenRocksStore would return DATA_LOSS, continue without the lost data as far as possible,
  // and log what is lost.
  bool accept_data_loss = false;
};

// FAILED_PRECONDITION, naming the path, if another process uses the directory or it contains other
// files than ours; DATA_LOSS if damage would lose or undo publications or deletions, in which case
// no file is changed; FAILED_PRECONDITION if it was written by a newer format version (names both).
absl::StatusOr<std::unique_ptr<DocumentStore>> OpenRocksStore(const RocksOptions& options);

}  // namespace recollect::store::rocks

// For callers.
namespace recollect::store {
using rocks::OpenRocksStore;
using rocks::RocksOptions;
}  // namespace recollect::store
