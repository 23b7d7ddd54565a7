// What the library tells of its own work: failures, and changes of the MANIFEST.
#ifndef RECOLLECT_STORE_ROCKS_EVENTS_H_
#define RECOLLECT_STORE_ROCKS_EVENTS_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "store/rocks/head.h"

namespace recollect::store::rocks {

// After an error the library would try to go on in the background. We open the database again
// instead (Database::Reopen); until then `failed` is true. And the head follows the MANIFEST.
// Thread-safe.
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

  // The families of which compactions may be stopped, once they are open.
  void Watch(std::vector<rocksdb::ColumnFamilyHandle*> families);

 private:
  // Until the next start, since the library would try the same again every second. Deletions give
  // less space back then, and reads look into more tables.
  void StopCompactions(rocksdb::DB& db, const rocksdb::CompactionJobInfo& info);

  const std::shared_ptr<std::atomic<bool>> failed_;
  const std::shared_ptr<Head> head_;
  Mutex mutex_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::store::rocks

#endif  // RECOLLECT_STORE_ROCKS_EVENTS_H_
