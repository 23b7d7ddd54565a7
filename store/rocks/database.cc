#include "store/rocks/database.h"

#include <algorithm>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/status.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/iterator.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/table.h"
#include "store/rocks/status.h"

namespace recollect::store {
namespace {

constexpr std::array<const char*, kFamilies> kFamilyNames = {
    "default", "catalog", "text", "tokens", "chunks", "landmarks", "ingests", "sessions"};

constexpr size_t kMiB = size_t{1} << 20;

rocksdb::ColumnFamilyOptions FamilyOptions(Family f, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  options.write_buffer_size = 4 * kMiB;
  // Writes never wait for a compaction: one that meets a damaged block never ends.
  options.level0_stop_writes_trigger = INT_MAX;
  options.hard_pending_compaction_bytes_limit = 0;
  options.compression = rocksdb::kNoCompression;
  switch (f) {
    case Family::kChunks:
    case Family::kSessions:
      // Values lie in the tables, not in blob files, and uncompressed: both measured, see
      // docs/decisions/0010-chunk-records-inline.md.
      options.write_buffer_size = 32 * kMiB;
      options.target_file_size_base = 64 * kMiB;
      options.level_compaction_dynamic_level_bytes = true;
      break;
    case Family::kText:
    case Family::kTokens:
      options.compression = rocksdb::kZSTD;
      break;
    case Family::kLandmarks:
      options.write_buffer_size = 16 * kMiB;
      break;
    case Family::kMeta:
    case Family::kCatalog:
    case Family::kIngests:
      break;
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// After an error the library would retry in the background, and answer "busy" meanwhile. We go on
// with the next write instead (Database::Write), so that callers always learn the real cause, and
// none pays for an error of background work that is long over. And the head follows the MANIFEST.
class Events final : public rocksdb::EventListener {
 public:
  Events(std::shared_ptr<std::atomic<int64_t>> failures, std::shared_ptr<Head> head)
      : failures_(std::move(failures)), head_(std::move(head)) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && error->IsCorruption()) {
      // A compaction that cannot read a table leaves all as it is, and writes nothing wrong. The
      // library would refuse every write from here on; only who reads the block need know.
      *error = rocksdb::Status::OK();
    } else {
      ++*failures_;
    }
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
    head_->SetManifest();
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    if (info.status.IsCorruption()) StopCompactions(*db, info);
    head_->SetManifest();
  }

  // The families that StopCompactions may be about, once they are open.
  void Watch(std::vector<rocksdb::ColumnFamilyHandle*> families) {
    std::lock_guard lock(mutex_);
    families_ = std::move(families);
  }

 private:
  // Until the next start, since the library would try the same again every second. Deletions give
  // less space back then, and reads look into more tables.
  void StopCompactions(rocksdb::DB& db, const rocksdb::CompactionJobInfo& info) {
    std::lock_guard lock(mutex_);
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

  const std::shared_ptr<std::atomic<int64_t>> failures_;
  const std::shared_ptr<Head> head_;
  std::mutex mutex_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
};

// The library's own messages, into our log. A file of its own in the data directory, the default,
// aborts the process when the disk is full: its writer asserts that no write follows a failed one,
// and Debian builds with assertions.
class ForwardingLogger final : public rocksdb::Logger {
 public:
  ForwardingLogger() : Logger(rocksdb::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[1000];
    std::vsnprintf(line, sizeof(line), format, arguments);
    LogWarning("rocksdb: {}", std::string(absl::StripTrailingAsciiWhitespace(line)));
  }
};

rocksdb::DBOptions DatabaseOptions(rocksdb::Env* env, bool accept_data_loss) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_open_files = static_cast<int>(TableDescriptors(DescriptorLimit()));
  options.max_background_jobs = 2;
  // A family that is rarely written would otherwise keep every old log alive.
  options.max_total_wal_size = 96 * kMiB;
  // The head reads all of it after each flush.
  options.max_manifest_file_size = kMiB;
  options.bytes_per_sync = kMiB;
  options.info_log = std::make_shared<ForwardingLogger>();
  options.max_bgerror_resume_count = 0;
  options.paranoid_checks = !accept_data_loss;  // else tables that cannot be opened are passed over
  // A log that ends within a record is what a crash leaves. Any other damage is an error, and so is
  // a log that is missing; the default would end there, and what follows would never have been.
  options.track_and_verify_wals_in_manifest = !accept_data_loss;
  options.wal_recovery_mode = accept_data_loss
                                  ? rocksdb::WALRecoveryMode::kPointInTimeRecovery
                                  : rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.env = env;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(int64_t cache_bytes) {
  const auto cache = rocksdb::NewLRUCache(static_cast<size_t>(cache_bytes));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kFamilies; ++i) {
    families.emplace_back(kFamilyNames[i], FamilyOptions(static_cast<Family>(i), cache));
  }
  return families;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Create(const std::string& directory,
                                                                     rocksdb::Env* env) {
  rocksdb::FileLock* lock = nullptr;
  RETURN_IF_ERROR(FromRocksOpen(env->LockFile(directory + "/LOCK", &lock), directory));
  return std::unique_ptr<DirectoryLock>(new DirectoryLock(env, lock));
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenToRead(const RocksOptions& options,
                                                               rocksdb::Env* env) {
  return Guarded("opening", [&]() -> absl::StatusOr<std::unique_ptr<Database>> {
    if (env == nullptr) env = rocksdb::Env::Default();
    std::unique_ptr<Database> out(new Database);
    ASSIGN_OR_RETURN(out->lock_, DirectoryLock::Create(options.directory, env));
    ASSIGN_OR_RETURN(out->head_, Head::Open(options, env));
    RETURN_IF_ERROR(out->head_->CheckManifest());
    const bool exists = env->FileExists(options.directory + "/CURRENT").ok();
    if (!exists && out->head_->catalog() == CatalogRecord()) return nullptr;
    const rocksdb::DBOptions database = DatabaseOptions(env, /*accept_data_loss=*/false);
    // Those that are there: a first start that was cut short made some of them only.
    std::vector<std::string> there;
    RETURN_IF_ERROR(FromRocksOpen(
        rocksdb::DB::ListColumnFamilies(database, options.directory, &there), options.directory));
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    std::vector<size_t> places;
    const auto all = Families(options.block_cache_bytes);
    for (size_t i = 0; i < kFamilies; ++i) {
      if (std::count(there.begin(), there.end(), kFamilyNames[i]) == 0) continue;
      families.push_back(all[i]);
      places.push_back(i);
    }
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    RETURN_IF_ERROR(FromRocksOpen(
        rocksdb::DB::OpenForReadOnly(database, options.directory, families, &handles, &db),
        options.directory));
    out->db_.reset(db);
    for (size_t i = 0; i < places.size(); ++i) out->handles_[places[i]] = handles[i];
    return out;
  });
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const RocksOptions& options,
                                                         rocksdb::Env* env) {
  return Guarded("opening", [&]() -> absl::StatusOr<std::unique_ptr<Database>> {
    if (env == nullptr) env = rocksdb::Env::Default();
    std::unique_ptr<Database> out(new Database);
    out->sync_ = options.sync_commits;
    ASSIGN_OR_RETURN(out->head_, Head::Open(options, env));
    RETURN_IF_ERROR(out->head_->Create());
    rocksdb::DBOptions database = DatabaseOptions(env, options.accept_data_loss);
    const auto events = std::make_shared<Events>(out->failures_, out->head_);
    database.listeners.push_back(events);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    RETURN_IF_ERROR(
        FromRocksOpen(rocksdb::DB::Open(database, options.directory,
                                        Families(options.block_cache_bytes), &handles, &db),
                      options.directory));
    out->db_.reset(db);
    std::copy(handles.begin(), handles.end(), out->handles_.begin());
    events->Watch({handles.begin(), handles.end() - 1});  // sessions' is made anew
    RETURN_IF_ERROR(Annotate(out->ResetSessions(), options.directory));
    out->head_->SetManifest();
    return out;
  });
}

Database::~Database() {
  if (db_ == nullptr) return;
  const absl::Status closed = Guarded("closing", [&]() -> absl::Status {
    if (lock_ != nullptr) {
      for (rocksdb::ColumnFamilyHandle* handle : handles_) {
        if (handle != nullptr) (void)db_->DestroyColumnFamilyHandle(handle);
      }
      return FromRocks(db_->Close(), "closing");
    }
    if (handles_.back() != nullptr) (void)db_->DropColumnFamily(family(Family::kSessions));
    // With an empty log, all that lies on disk at rest is in tables: damage there is an error when
    // it is read, while a damaged log ends recovery early, as a torn one must.
    const absl::Status flushed = Flush();
    if (!flushed.ok()) LogWarning("{}", std::string(flushed.message()));
    rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/true);
    for (rocksdb::ColumnFamilyHandle*& handle : handles_) {
      if (handle != nullptr) (void)db_->DestroyColumnFamilyHandle(std::exchange(handle, nullptr));
    }
    const absl::Status status = FromRocks(db_->Close(), "closing");
    head_->SetManifest();
    return status;
  });
  if (!closed.ok()) LogWarning("{}", std::string(closed.message()));
}

absl::Status Database::ResetSessions() {
  // Dropping the family unlinks its files at once, however many there are.
  auto& handle = handles_[static_cast<size_t>(Family::kSessions)];
  rocksdb::ColumnFamilyDescriptor descriptor;
  RETURN_IF_ERROR(FromRocks(handle->GetDescriptor(&descriptor), "sessions"));
  RETURN_IF_ERROR(FromRocks(db_->DropColumnFamily(handle), "sessions"));
  RETURN_IF_ERROR(
      FromRocks(db_->DestroyColumnFamilyHandle(std::exchange(handle, nullptr)), "sessions"));
  return FromRocks(db_->CreateColumnFamily(descriptor.options, descriptor.name, &handle),
                   "sessions");
}

absl::Status Database::Flush() {
  return Guarded("flush", [&]() -> absl::Status {
    std::vector<rocksdb::ColumnFamilyHandle*> durable;
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      if (handle != nullptr && handle != family(Family::kSessions)) durable.push_back(handle);
    }
    return FromRocks(db_->Flush(rocksdb::FlushOptions(), durable), "flush");
  });
}

absl::Status Database::Write(rocksdb::WriteBatch& batch, Durability durability,
                             absl::string_view what) {
  return Guarded(what, [&]() -> absl::Status {
    if (*failures_ != resumed_) {
      std::lock_guard lock(resume_mutex_);
      // Read before: what fails from here on is left for the next write.
      const int64_t failures = *failures_;
      if (failures != resumed_) {
        RETURN_IF_ERROR(FromRocks(db_->Resume(), what));
        resumed_ = failures;
      }
    }
    rocksdb::WriteOptions options;
    options.sync = durability == Durability::kSynced && sync_;
    options.disableWAL = durability == Durability::kNone;
    const rocksdb::Status status = db_->Write(options, &batch);
    if (!status.ok()) ++*failures_;
    return FromRocks(status, what);
  });
}

absl::StatusOr<std::string> Database::Get(Family f, const std::string& key,
                                          absl::string_view what) {
  return Guarded(what, [&]() -> absl::StatusOr<std::string> {
    std::string value;
    if (family(f) == nullptr) return absl::NotFoundError(absl::StrCat(what, ": no such family"));
    RETURN_IF_ERROR(FromRocks(db_->Get(rocksdb::ReadOptions(), family(f), key, &value), what));
    return value;
  });
}

void Database::MultiGet(
    Family f, std::span<const std::string> keys,
    const std::function<void(size_t, const rocksdb::Status&, absl::string_view)>& visit) {
  rocksdb::ReadOptions options;
  options.fill_cache = f != Family::kChunks && f != Family::kSessions;
  const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  db_->MultiGet(options, family(f), keys.size(), slices.data(), values.data(), statuses.data(),
                /*sorted_input=*/true);
  for (size_t i = 0; i < keys.size(); ++i) visit(i, statuses[i], ToView(values[i]));
}

absl::Status Database::Scan(
    Family f, const std::string& from, absl::string_view prefix,
    const std::function<bool(absl::string_view, absl::string_view)>& visit) {
  return Guarded("scan", [&]() -> absl::Status {
    if (family(f) == nullptr) return absl::OkStatus();
    const std::unique_ptr<rocksdb::Iterator> it(
        db_->NewIterator(rocksdb::ReadOptions(), family(f)));
    for (it->Seek(from); it->Valid() && absl::StartsWith(ToView(it->key()), prefix); it->Next()) {
      if (!visit(ToView(it->key()), ToView(it->value()))) break;
    }
    return FromRocks(it->status(), kFamilyNames[static_cast<size_t>(f)]);
  });
}

absl::Status Database::DropRange(std::span<const Family> families, const std::string& begin,
                                 const std::string& end, Durability durability) {
  return Guarded("delete", [&]() -> absl::Status {
    rocksdb::WriteBatch batch;
    const rocksdb::Slice from(begin), to(end);
    const rocksdb::RangePtr range(&from, &to);
    for (const Family f : families) {
      // Files first, marks second: a file that is deleted may hold the marks of an earlier attempt,
      // and what those hid must be hidden again.
      RETURN_IF_ERROR(FromRocks(
          rocksdb::DeleteFilesInRanges(db_.get(), family(f), &range, 1, /*include_end=*/false),
          "delete"));
      RETURN_IF_ERROR(FromRocks(batch.DeleteRange(family(f), from, to), "delete"));
    }
    return Write(batch, durability, "delete");
  });
}

absl::Status Database::Compact(Family f, const std::string& begin, const std::string& end,
                               std::atomic<bool>* canceled) {
  return Guarded("compaction", [&]() -> absl::Status {
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    options.canceled = canceled;
    const rocksdb::Slice from(begin), to(end);
    return FromRocks(db_->CompactRange(options, family(f), &from, &to), "compaction");
  });
}

absl::Status Database::CheckTables() const {
  return Guarded("tables", [&]() -> absl::Status {
    std::vector<rocksdb::LiveFileMetaData> tables;
    db_->GetLiveFilesMetaData(&tables);
    rocksdb::Options options;
    options.env = db_->GetEnv();
    for (const rocksdb::LiveFileMetaData& table : tables) {
      const std::string path = absl::StrCat(table.directory, "/", table.relative_filename);
      RETURN_IF_ERROR(FromRocks(rocksdb::SstFileReader(options).Open(path), path));
    }
    return absl::OkStatus();
  });
}

int64_t Database::ApproximateBytes() const {
  uint64_t total = 0;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    for (const char* property :
         {"rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables"}) {
      uint64_t value = 0;
      if (db_->GetIntProperty(handle, property, &value)) total += value;
    }
  }
  return static_cast<int64_t>(total);
}

}  // namespace recollect::store
