// Listens to the library's events: failures, and changes of the MANIFEST.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/sync/mutex.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "store/rocks/db/head.h"

namespace recollect::store::rocks {

// After an error, except of a compaction, `failed` is true until the database is opened again
// (Database::Reopen); the library's own recovery in the background is turned off. Also records
// changes of the MANIFEST in the head. Thread-safe.
class Events final : public rocksdb::EventListener {
 public:
  Events(std::shared_ptr<std::atomic<bool>> failed, std::shared_ptr<Head> head)
      : failed_(std::move(failed)), head_(std::move(head)) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
    head_->SetManifest();
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;

  // Sets the families whose compactions may be stopped, once they are open.
  void Watch(std::vector<rocksdb::ColumnFamilyHandle*> families);

 private:
  // Stops the family's compactions until the next start, since the library would try the same again
  // every second. Deletions then give less space back, and reads look into more tables.
  void StopCompactions(rocksdb::DB& db, const rocksdb::CompactionJobInfo& info);

  const std::shared_ptr<std::atomic<bool>> failed_;
  const std::shared_ptr<Head> head_;
  Mutex mutex_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::store::rocks
