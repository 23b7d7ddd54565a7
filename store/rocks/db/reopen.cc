// Opening the library, and opening it again after an error of the disk. The library can resume by
// itself (DB::Resume), but that is safe in part of the cases only: a log that ends within a record
// may be written on, a flush that failed once may not be tried again (asserted, and Debian builds
// with assertions), and after other errors it refuses. Opened again it does what it does after a
// crash, which is tested most.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/io/log.h"
#include "base/status.h"
#include "rocksdb/convenience.h"
#include "rocksdb/iterator.h"
#include "store/rocks/db/database.h"
#include "store/rocks/db/events.h"
#include "store/rocks/db/status.h"
#include "store/store_errors.h"

namespace recollect::store::rocks {
namespace {

// Reads that are under way end within this time, a compaction within one of its blocks.
constexpr std::chrono::seconds kPatience{20};

}  // namespace

absl::Status Database::OpenLibrary() {
  rocksdb::DBOptions database = DatabaseOptions(env_, options_.accept_data_loss);
  const auto events = std::make_shared<Events>(failed_, head_);
  database.listeners.push_back(events);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  RETURN_IF_ERROR(
      FromRocksOpen(rocksdb::DB::Open(database, options_.directory, Families(), &handles, &db),
                    options_.directory));
  db_.reset(db);
  std::copy(handles.begin(), handles.end(), handles_.begin());
  events->Watch({handles.begin(), handles.end() - 1});  // sessions' is made anew
  return absl::OkStatus();
}

absl::Status Database::OpenLibraryToRead() {
  const rocksdb::DBOptions database = DatabaseOptions(env_, /*accept_data_loss=*/false);
  // Those that are there: a first start that was cut short made some of them only.
  std::vector<std::string> there;
  RETURN_IF_ERROR(FromRocksOpen(
      rocksdb::DB::ListColumnFamilies(database, options_.directory, &there), options_.directory));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  std::vector<size_t> places;
  const auto all = Families();
  for (size_t i = 0; i < kFamilies; ++i) {
    if (std::count(there.begin(), there.end(), kFamilyNames[i]) == 0) continue;
    families.push_back(all[i]);
    places.push_back(i);
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  RETURN_IF_ERROR(FromRocksOpen(
      rocksdb::DB::OpenForReadOnly(database, options_.directory, families, &handles, &db),
      options_.directory));
  db_.reset(db);
  for (size_t i = 0; i < places.size(); ++i) handles_[places[i]] = handles[i];
  return absl::OkStatus();
}

absl::Status Database::CloseLibrary() {
  if (db_ == nullptr) return absl::OkStatus();
  rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/true);
  for (rocksdb::ColumnFamilyHandle*& handle : handles_) {
    if (handle != nullptr) (void)db_->DestroyColumnFamilyHandle(std::exchange(handle, nullptr));
  }
  absl::Status closed = FromRocks(db_->Close(), "closing");
  db_.reset();
  lock_.reset();
  return closed;
}

void Database::KeepSessions() {
  if (!sessions_.empty() || lock_ != nullptr) return;  // of an attempt that failed
  rocksdb::ReadOptions in_memory;
  in_memory.read_tier = rocksdb::kMemtableTier;
  const std::unique_ptr<rocksdb::Iterator> it(
      db_->NewIterator(in_memory, family(Family::kSessions)));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    sessions_.emplace_back(it->key().ToString(), it->value().ToString());
  }
  if (!it->status().ok()) LogWarning("sessions' chunks: {}", it->status().ToString());
}

absl::Status Database::RestoreSessions() {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  for (const auto& [key, value] : sessions_) {
    RETURN_IF_ERROR(
        FromRocks(db_->Put(options, family(Family::kSessions), key, value), "sessions' chunks"));
  }
  sessions_.clear();
  return absl::OkStatus();
}

absl::Status Database::Reopen() {
  MutexLock lock(reopen_mutex_);
  if (!*failed_) return absl::OkStatus();
  RETURN_IF_ERROR(unmendable_);
  if (db_ != nullptr) {
    RETURN_IF_ERROR(CheckRoom(0, /*uses_reserve=*/false));
    db_->DisableManualCompaction();  // one may take minutes
  }
  if (!gate_.CloseWhenEmpty(kPatience)) {
    return absl::UnavailableError("the database is in use all the time, and cannot be reopened");
  }
  LogWarning("opening the database again, after an error of the disk");
  if (db_ != nullptr && lock_ == nullptr) {
    last_written_ = db_->GetLatestSequenceNumber();
    KeepSessions();
  }
  LogIfFailed(CloseLibrary());
  *failed_ = false;
  absl::Status opened = OpenLibrary();
  const bool found_more = opened.ok() && db_->GetLatestSequenceNumber() > last_written_;
  if (found_more && given_up_ > 0) {
    // It was in the log as a whole, and could only not be synced. Who made it takes it for undone.
    opened = unmendable_ = absl::UnavailableError(
        "a write that failed was done all the same: nothing is written until the next start");
  }
  if (opened.ok()) opened = RestoreSessions();
  if (opened.ok()) given_up_ = 0;
  if (!opened.ok()) {
    *failed_ = true;
    if (db_ == nullptr) {
      // So that reading goes on.
      auto held = LockDirectory(options_.directory, env_);
      if (held.ok()) lock_ = *std::move(held);
      const absl::Status read = lock_ != nullptr ? OpenLibraryToRead() : absl::OkStatus();
      if (!read.ok()) LogError("{}", std::string(read.message()));
    }
  }
  head_->SetManifest();
  gate_.Open();
  return opened;
}

}  // namespace recollect::store::rocks
