#include "store/rocks/db/database.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "rocksdb/convenience.h"
#include "rocksdb/iterator.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_reader.h"
#include "store/rocks/db/status.h"
#include "store/store_errors.h"

namespace recollect::store::rocks {
namespace {

// Of the disk, kept free for deletions and for compactions that give space back.
constexpr int64_t kReserveBytes = int64_t{8} << 20;
// The log grows by blocks; and a record has a header.
constexpr int64_t kMinRoom = int64_t{64} << 10;

// Chunks and keys are read once, and larger than what a cache is good for.
rocksdb::ReadOptions ReadOptionsOf(Family f) {
  rocksdb::ReadOptions options;
  options.fill_cache = f != Family::kChunks && f != Family::kSessions && f != Family::kLandmarks;
  return options;
}

}  // namespace

absl::StatusOr<DirectoryLock> LockDirectory(const std::string& directory, rocksdb::Env* env) {
  rocksdb::FileLock* lock = nullptr;
  RETURN_IF_ERROR(FromRocksOpen(env->LockFile(directory + "/LOCK", &lock), directory));
  return DirectoryLock(lock, {env});
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenToRead(const RocksOptions& options,
                                                               rocksdb::Env* env) {
  return Guarded("opening", [&]() -> absl::StatusOr<std::unique_ptr<Database>> {
    std::unique_ptr<Database> out(new Database(options, env));
    ASSIGN_OR_RETURN(out->lock_, LockDirectory(options.directory, out->env_));
    ASSIGN_OR_RETURN(out->head_, Head::Open(options, out->env_));
    RETURN_IF_ERROR(out->head_->CheckManifest());
    const bool exists = out->env_->FileExists(options.directory + "/CURRENT").ok();
    if (!exists && out->head_->catalog() == CatalogRecord()) return nullptr;
    RETURN_IF_ERROR(out->OpenLibraryToRead());
    return out;
  });
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const RocksOptions& options,
                                                         rocksdb::Env* env) {
  return Guarded("opening", [&]() -> absl::StatusOr<std::unique_ptr<Database>> {
    std::unique_ptr<Database> out(new Database(options, env));
    ASSIGN_OR_RETURN(out->head_, Head::Open(options, out->env_));
    RETURN_IF_ERROR(out->head_->Create());
    RETURN_IF_ERROR(out->OpenLibrary());
    RETURN_IF_ERROR(Annotate(out->ResetSessions(), options.directory));
    out->head_->SetManifest();
    return out;
  });
}

Database::~Database() {
  if (db_ == nullptr) return;
  LogIfFailed(Guarded("closing", [&]() -> absl::Status {
    if (lock_ == nullptr && !*failed_) {
      rocksdb::ColumnFamilyHandle* const sessions = family(Family::kSessions);
      if (sessions != nullptr) (void)db_->DropColumnFamily(sessions);
      // With an empty log, all that lies on disk at rest is in tables: damage there is an error
      // when it is read, while a damaged log ends recovery early, as a torn one must.
      LogIfFailed(Flush());
    }
    const bool written = lock_ == nullptr;
    absl::Status status = CloseLibrary();
    if (written) head_->SetManifest();
    return status;
  }));
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
    const Gate::Inside inside(gate_);
    RETURN_IF_ERROR(CheckWritable());
    std::vector<rocksdb::ColumnFamilyHandle*> durable;
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      if (handle != nullptr && handle != family(Family::kSessions)) durable.push_back(handle);
    }
    return FromRocks(db_->Flush(rocksdb::FlushOptions(), durable), "flush");
  });
}

absl::Status Database::CheckOpen() const {
  return db_ != nullptr ? absl::OkStatus()
                        : absl::UnavailableError("the database could not be opened again");
}

absl::Status Database::CheckWritable() const {
  RETURN_IF_ERROR(CheckOpen());
  return !*failed_ ? absl::OkStatus() : absl::UnavailableError("the disk has failed");
}

absl::Status Database::CheckRoom(int64_t bytes, bool uses_reserve) const {
  uint64_t free = 0, in_memory = 0;
  if (!env_->GetFreeSpace(options_.directory, &free).ok()) return absl::OkStatus();
  uint64_t needed = static_cast<uint64_t>(bytes + kMinRoom);
  if (!uses_reserve) {
    db_->GetAggregatedIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &in_memory);
    needed += static_cast<uint64_t>(bytes + kReserveBytes) + in_memory;
  }
  if (free >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the disk is full: ", needed, " bytes needed, ", free, " free"));
}

absl::Status Database::Write(const Batch& batch, absl::string_view what, Durability durability) {
  return Guarded(what, [&]() -> absl::Status {
    if (*failed_) RETURN_IF_ERROR(Annotate(Reopen(), what));
    rocksdb::Status status;
    bool read_only = false;
    {
      const Gate::Inside inside(gate_);
      RETURN_IF_ERROR(Annotate(CheckOpen(), what));
      RETURN_IF_ERROR(Annotate(CheckRoom(batch.bytes(), batch.uses_reserve()), what));
      rocksdb::WriteBatch changes(static_cast<size_t>(batch.bytes()));
      RETURN_IF_ERROR(FromRocks(Translate(batch, &changes), what));
      rocksdb::WriteOptions options;
      options.sync = durability == Durability::kSynced && options_.sync_commits;
      options.disableWAL = durability == Durability::kNone;
      // Another thread may have failed to open it again since the call began, except to read.
      read_only = lock_ != nullptr && *failed_;
      if (!read_only) status = db_->Write(options, &changes);
      if (!status.ok()) *failed_ = true;
    }
    if (read_only) return Write(batch, what, durability);  // opens it again first
    if (status.ok()) return absl::OkStatus();
    // What was logged but not synced is found when the database is opened again: then it is done.
    if (durability == Durability::kNone) return FromRocks(status, what);
    if (!Reopen().ok()) {
      ++given_up_;
    } else if (Has(batch)) {
      return absl::OkStatus();
    }
    return FromRocks(status, what);
  });
}

rocksdb::Status Database::Translate(const Batch& batch, rocksdb::WriteBatch* out) const {
  rocksdb::Status status;
  for (const Batch::Change& change : batch.changes()) {
    rocksdb::ColumnFamilyHandle* const handle = family(change.family);
    switch (change.kind) {
      case Batch::Kind::kPut:
        status = out->Put(handle, change.key, change.value);
        break;
      case Batch::Kind::kDelete:
        status = out->Delete(handle, change.key);
        break;
      case Batch::Kind::kDeleteRange:
        status = out->DeleteRange(handle, change.key, change.value);
        break;
    }
    if (!status.ok()) break;
  }
  return status;
}

bool Database::Has(const Batch& batch) {
  for (const Batch::Change& change : batch.changes()) {
    if (change.kind != Batch::Kind::kPut) continue;
    const auto value = Get(change.family, change.key, "");
    return value.ok() && *value == change.value;
  }
  return false;
}

absl::StatusOr<std::string> Database::Get(Family f, const std::string& key,
                                          absl::string_view what) {
  return Guarded(what, [&]() -> absl::StatusOr<std::string> {
    const Gate::Inside inside(gate_);
    RETURN_IF_ERROR(CheckOpen());
    std::string value;
    if (family(f) == nullptr) return absl::NotFoundError(absl::StrCat(what, ": no such family"));
    RETURN_IF_ERROR(FromRocks(db_->Get(ReadOptionsOf(f), family(f), key, &value), what));
    return value;
  });
}

void Database::MultiGet(
    Family f, std::span<const std::string> keys,
    const std::function<void(size_t, const rocksdb::Status&, absl::string_view)>& visit) {
  const Gate::Inside inside(gate_);
  const rocksdb::Status closed = rocksdb::Status::IOError("the database could not be opened again");
  for (size_t i = 0; i < keys.size() && db_ == nullptr; ++i) visit(i, closed, "");
  if (db_ == nullptr) return;
  const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  db_->MultiGet(ReadOptionsOf(f), family(f), keys.size(), slices.data(), values.data(),
                statuses.data(),
                /*sorted_input=*/true);
  for (size_t i = 0; i < keys.size(); ++i) visit(i, statuses[i], ToView(values[i]));
}

absl::Status Database::Scan(
    Family f, const std::string& from, absl::string_view prefix,
    const std::function<bool(absl::string_view, absl::string_view)>& visit) {
  return Guarded("scan", [&]() -> absl::Status {
    const Gate::Inside inside(gate_);
    RETURN_IF_ERROR(CheckOpen());
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
    if (*failed_) RETURN_IF_ERROR(Reopen());
    Batch batch(/*uses_reserve=*/true);
    for (const Family f : families) {
      // Files first, marks second: a file that is deleted may hold the marks of an earlier attempt,
      // and what those hid must be hidden again.
      absl::Status deleted = DeleteTables(f, begin, end, /*include_end=*/false);
      if (!deleted.ok() && *failed_) {  // by a flush in the background, since the call began
        RETURN_IF_ERROR(Reopen());
        deleted = DeleteTables(f, begin, end, /*include_end=*/false);
      }
      RETURN_IF_ERROR(deleted);
      batch.DeleteRange(f, begin, end);
    }
    return Write(batch, "delete", durability);
  });
}

absl::Status Database::Compact(Family f, const std::string& begin, const std::string& end,
                               std::atomic<bool>* canceled) {
  return Guarded("compaction", [&]() -> absl::Status {
    const Gate::Inside inside(gate_);
    RETURN_IF_ERROR(CheckWritable());
    rocksdb::CompactRangeOptions options;
    options.exclusive_manual_compaction = false;
    // Marks that an earlier compaction has moved to the last level go, too. Of sessions that level
    // may be large, and they come and go.
    if (f != Family::kSessions) {
      options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    }
    options.canceled = canceled;
    const rocksdb::Slice from(begin), to(end);
    return FromRocks(db_->CompactRange(options, family(f), &from, &to), "compaction");
  });
}

absl::Status Database::DeleteTables(Family f, const std::string& begin, const std::string& end,
                                    bool include_end) {
  return Guarded("delete", [&]() -> absl::Status {
    const Gate::Inside inside(gate_);
    RETURN_IF_ERROR(CheckWritable());
    const rocksdb::Slice from(begin), to(end);
    const rocksdb::RangePtr range(&from, &to);
    return FromRocks(rocksdb::DeleteFilesInRanges(db_.get(), family(f), &range, 1, include_end),
                     "delete");
  });
}

absl::Status Database::CheckTables() const {
  return Guarded("tables", [&]() -> absl::Status {
    const Gate::Inside inside(gate_);
    RETURN_IF_ERROR(CheckOpen());
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

StoreState Database::state() const {
  StoreState state;
  uint64_t free = 0;
  if (env_->GetFreeSpace(options_.directory, &free).ok())
    state.free_bytes = static_cast<int64_t>(free);
  state.read_only = *failed_;
  const Gate::Inside inside(gate_);
  if (!CheckOpen().ok()) return state;
  for (size_t i = 0; i < kFamilies; ++i) {
    uint64_t tables = 0, in_memory = 0;
    if (handles_[i] == nullptr) continue;
    db_->GetIntProperty(handles_[i], rocksdb::DB::Properties::kTotalSstFilesSize, &tables);
    db_->GetIntProperty(handles_[i], rocksdb::DB::Properties::kCurSizeAllMemTables, &in_memory);
    state.table_bytes.emplace_back(kFamilyNames[i], static_cast<int64_t>(tables));
    state.bytes += static_cast<int64_t>(tables + in_memory);
  }
  return state;
}

}  // namespace recollect::store::rocks
