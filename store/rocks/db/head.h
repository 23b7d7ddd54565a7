// The least that a data directory must contain, in a file beside the database: the catalog's latest
// change, and the part of the MANIFEST that was written. The database alone cannot tell that its
// end is missing: a log or MANIFEST that was cut looks like one that was shorter from the start.
// Read before the database is opened, since opening deletes the tables that the MANIFEST does not
// name.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "rocksdb/env.h"
#include "store/format.h"
#include "store/rocks/rocks_store.h"

namespace recollect::store::rocks {

// In the data directory. Marks it as ours.
inline constexpr char kHeadFile[] = "RECOLLECT";

// Thread-safe. A change replaces the whole file. A change that cannot be written is logged and
// included in the next one, since the data that it would protect is already durable.
class Head {
 public:
  // Reads the file. Without one, returns a head that requires nothing. DATA_LOSS if the file is
  // damaged, unless options.accept_data_loss: then the same head, with a warning. `env` must
  // outlive the result; with sync_commits changes survive power loss.
  static absl::StatusOr<std::shared_ptr<Head>> Open(const RocksOptions& options, rocksdb::Env* env);

  CatalogRecord catalog() const;

  // Checks that CURRENT names the recorded MANIFEST, which must begin with the recorded bytes, or a
  // later one. DATA_LOSS names the file and both values.
  absl::Status CheckManifest() const;

  // Writes the file for the first time. Unlike later changes, a failure is returned.
  absl::Status Create();
  void SetCatalog(const CatalogRecord& catalog);
  // Records the MANIFEST as it is now.
  void SetManifest();

 private:
  Head(std::string directory, rocksdb::Env* env, bool sync)
      : directory_(std::move(directory)), env_(env), sync_(sync) {}
  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }
  absl::Status Write() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string directory_;
  rocksdb::Env* const env_;
  const bool sync_;
  mutable Mutex mutex_;
  HeadRecord record_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::store::rocks
