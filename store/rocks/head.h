// What a data directory must hold at least, in a file beside the database: how far the catalog has
// come, and what of the MANIFEST was written. The database alone cannot tell that its end is
// missing: a log or MANIFEST that was cut looks like one that was shorter from the start. Read
// before the database is opened, since opening deletes the tables that the MANIFEST does not name.
#ifndef RECOLLECT_STORE_ROCKS_HEAD_H_
#define RECOLLECT_STORE_ROCKS_HEAD_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rocksdb/env.h"
#include "store/format.h"
#include "store/rocks/rocks_store.h"

namespace recollect::store {

// In the data directory. Marks it as ours.
inline constexpr char kHeadFile[] = "RECOLLECT";

// Thread-safe. Changes replace the file as a whole; one that cannot be written is logged and part
// of the next, since what it would have protected is durable already.
class Head {
 public:
  // Of a directory without the file, one that asks for nothing. DATA_LOSS when it is damaged,
  // unless that is accepted: then the same with a warning. `env` outlives the result; with
  // sync_commits changes survive power loss.
  static absl::StatusOr<std::shared_ptr<Head>> Open(const RocksOptions& options, rocksdb::Env* env);

  CatalogRecord catalog() const;

  // That CURRENT and the MANIFEST begin with what is recorded of them. DATA_LOSS names the file
  // and both values.
  absl::Status CheckManifest() const;

  // The first replacement makes the file, and says what may fail at that.
  absl::Status Create();
  void SetCatalog(const CatalogRecord& catalog);
  // Records the MANIFEST as it is now.
  void SetManifest();

 private:
  Head(std::string directory, rocksdb::Env* env, bool sync)
      : directory_(std::move(directory)), env_(env), sync_(sync) {}
  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }
  absl::Status Write() const;  // REQUIRES: mutex_ held

  const std::string directory_;
  rocksdb::Env* const env_;
  const bool sync_;
  mutable std::mutex mutex_;
  HeadRecord record_;
};

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_ROCKS_HEAD_H_
