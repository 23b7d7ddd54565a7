#include "store/rocks/db/events.h"

#include "base/io/log.h"

namespace recollect::store::rocks {

void Events::OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) {
  if (reason == rocksdb::BackgroundErrorReason::kCompaction) {
    // A compaction that fails leaves all as it is, and writes nothing wrong. The library would
    // refuse every write from here on; only who reads a damaged block need know.
    *error = rocksdb::Status::OK();
  } else {
    *failed_ = true;
  }
}

void Events::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  if (info.status.IsCorruption()) StopCompactions(*db, info);
  head_->SetManifest();
}

void Events::Watch(std::vector<rocksdb::ColumnFamilyHandle*> families) {
  MutexLock lock(mutex_);
  families_ = std::move(families);
}

void Events::StopCompactions(rocksdb::DB& db, const rocksdb::CompactionJobInfo& info) {
  MutexLock lock(mutex_);
  for (auto family = families_.begin(); family != families_.end(); ++family) {
    if ((*family)->GetID() != info.cf_id) continue;
    LogError("no more compactions of {} until the next start: {}", info.cf_name,
             info.status.ToString());
    const rocksdb::Status set = db.SetOptions(*family, {{"disable_auto_compactions", "true"}});
    if (!set.ok()) LogWarning("{}", set.ToString());
    families_.erase(family);  // once is enough: compactions asked for may fail again
    return;
  }
}

}  // namespace recollect::store::rocks
