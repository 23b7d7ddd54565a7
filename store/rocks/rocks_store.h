// DocumentStore on RocksDB. The only header of this target; RocksDB's own headers stay in its .cc
// files.
#ifndef RECOLLECT_STORE_ROCKS_ROCKS_STORE_H_
#define RECOLLECT_STORE_ROCKS_ROCKS_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/document_store.h"

namespace recollect::store {

struct RocksOptions {
  std::string directory;  // created when missing
  int64_t block_cache_bytes = int64_t{32}
                              << 20;  // chunk records bypass it: the host tier caches them decoded
  bool sync_commits = true;  // a commit survives power loss, not only a crash of the process
  // Goes on without what is lost where OpenRocksStore would be DATA_LOSS, as far as that can be
  // done, and logs what that costs.
  bool accept_data_loss = false;
};

// FAILED_PRECONDITION naming the path when another process owns the directory, or it has other
// things than ours; DATA_LOSS when the database is damaged such that what was published or deleted
// would not be so any more: no file is changed then; FAILED_PRECONDITION when it was written by a
// newer format version (names both).
absl::StatusOr<std::unique_ptr<DocumentStore>> OpenRocksStore(const RocksOptions& options);

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_ROCKS_ROCKS_STORE_H_
