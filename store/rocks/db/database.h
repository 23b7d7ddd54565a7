// An open RocksDB with our column families and options. Moves keys and bytes; knows no documents.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/slice.h"
#include "rocksdb/write_batch.h"
#include "store/document_store.h"
#include "store/rocks/db/batch.h"
#include "store/rocks/db/database_options.h"
#include "store/rocks/db/gate.h"
#include "store/rocks/db/head.h"
#include "store/rocks/rocks_store.h"

namespace recollect::store::rocks {

// The library's lock on a directory, which the library does not take when it opens a database for
// reading.
struct UnlockFile {
  rocksdb::Env* env = nullptr;
  void operator()(rocksdb::FileLock* lock) const { (void)env->UnlockFile(lock); }
};
using DirectoryLock = std::unique_ptr<rocksdb::FileLock, UnlockFile>;
absl::StatusOr<DirectoryLock> LockDirectory(const std::string& directory, rocksdb::Env* env);

inline absl::string_view ToView(const rocksdb::Slice& bytes) {
  return {bytes.data(), bytes.size()};
}

enum class Durability {
  kSynced,  // survives power loss, or a crash of the process only, as RocksOptions says
  kLogged,  // survives a crash of the process; power loss once a synced write has followed
  kNone,    // may vanish with the process: sessions' chunks
};

// Thread-safe.
class Database {
 public:
  // Opens the database, with the error codes of OpenRocksStore. Drops sessions' chunks of an
  // earlier process. `env` null: the system's; otherwise outlives the result.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const RocksOptions& options,
                                                        rocksdb::Env* env);
  // Opens the database for reading, to inspect it before Open, which deletes files. Locks the
  // directory, changes none of its files, and has no sessions' chunks. Null if there is no database
  // yet. DATA_LOSS if the MANIFEST or the log is damaged.
  static absl::StatusOr<std::unique_ptr<Database>> OpenToRead(const RocksOptions& options,
                                                              rocksdb::Env* env);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Writes all of the batch or nothing. RESOURCE_EXHAUSTED, which names the bytes needed and the
  // bytes free, if the disk might fill up; nothing is written then. After an error of the disk
  // everything can be read, but nothing written, until a Write has opened the database again; each
  // Write first tries to, once there is room for it. So the store recovers by itself.
  absl::Status Write(const Batch& batch, absl::string_view what,
                     Durability durability = Durability::kSynced);

  // Returns the key's value. NOT_FOUND when there is none.
  absl::StatusOr<std::string> Get(Family f, const std::string& key, absl::string_view what);

  // Reads `keys`, which are in ascending order, in one batch. visit(i, status, bytes) is called for
  // each, in order; bytes are valid only during the call. Chunks, sessions' chunks and landmark
  // keys bypass the block cache.
  void MultiGet(
      Family f, std::span<const std::string> keys,
      const std::function<void(size_t, const rocksdb::Status&, absl::string_view)>& visit);

  // Calls visit(key, value) for the keys from `from` on that start with `prefix`, in order, until
  // it returns false.
  absl::Status Scan(Family f, const std::string& from, absl::string_view prefix,
                    const std::function<bool(absl::string_view, absl::string_view)>& visit);

  // Deletes all keys of [begin, end) in families `families`: whole files are deleted at once, other
  // keys are hidden by tombstones.
  absl::Status DropRange(std::span<const Family> families, const std::string& begin,
                         const std::string& end, Durability durability = Durability::kSynced);

  // Deletes tables that hold only keys and tombstones of [begin, end]; no key `end` exists.
  // REQUIRES: the range was dropped and compacted, so that its tombstones hide nothing any more.
  absl::Status DropTables(Family f, const std::string& begin, const std::string& end) {
    return DeleteTables(f, begin, end, /*include_end=*/true);
  }

  // Rewrites files that still contain dropped keys of the range, which frees their space. Slow.
  // Ends early once *canceled.
  absl::Status Compact(Family f, const std::string& begin, const std::string& end,
                       std::atomic<bool>* canceled);

  // Moves the log's contents into tables, so that the log's files are deleted. Does not flush
  // sessions' chunks.
  absl::Status Flush();

  // Implements DocumentStore::Backup; in backup.cc. After an error of the disk the database is not
  // opened again before the backup has ended.
  absl::StatusOr<BackupInfo> Backup(const std::string& directory, uint32_t keep);

  // Returns the state; bytes are 0 while the database could not be opened again.
  StoreState state() const;

  // Checks that every table can be opened: DATA_LOSS names a table whose end, which has its index,
  // is damaged. The library itself checks only some tables when it opens the database, and refuses
  // the database if one of them is damaged.
  absl::Status CheckTables() const;

  Head& head() const { return *head_; }

 private:
  Database(const RocksOptions& options, rocksdb::Env* env)
      : options_(options), env_(env != nullptr ? env : rocksdb::Env::Default()) {}
  rocksdb::ColumnFamilyHandle* family(Family f) const { return handles_[static_cast<size_t>(f)]; }
  absl::Status ResetSessions();
  absl::Status DeleteTables(Family f, const std::string& begin, const std::string& end,
                            bool include_end);
  // REQUIRES, for the next three: the caller is inside the gate.
  absl::Status CheckOpen() const;
  absl::Status CheckWritable() const;
  // Returns RESOURCE_EXHAUSTED unless the disk has room for `bytes` in the log and, unless the
  // batch may use the reserve, for tables of these and of everything that is in memory only.
  absl::Status CheckRoom(int64_t bytes, bool uses_reserve) const;

  rocksdb::Status Translate(const Batch& batch, rocksdb::WriteBatch* out) const;
  // Returns whether a batch was written, as a whole, although its write failed. Looks for the first
  // record that the batch puts, which no other batch has and which was not there before. False for
  // a batch of deletions alone, which may be done twice.
  bool Has(const Batch& batch);

  // reopen.cc
  // Opens the database again after an error. RESOURCE_EXHAUSTED while there is no room for that.
  absl::Status Reopen();
  // REQUIRES, for the next three: no other thread uses the library.
  absl::Status OpenLibrary();
  absl::Status OpenLibraryToRead();
  absl::Status CloseLibrary();
  // Copy sessions' chunks that are in memory only out of the library, and write them back.
  void KeepSessions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reopen_mutex_);
  absl::Status RestoreSessions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reopen_mutex_);

  const RocksOptions options_;
  rocksdb::Env* const env_;
  std::shared_ptr<Head> head_;
  // Held while the database is open for reading; otherwise the library holds the lock.
  DirectoryLock lock_;

  // Every thread is inside the gate while it uses the library.
  mutable Gate gate_;
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> handles_{};

  // Set when the library refuses writes or is about to.
  const std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
  Mutex reopen_mutex_;
  std::atomic<int> given_up_{0};  // writes since then that callers know as failed
  absl::Status unmendable_ ABSL_GUARDED_BY(reopen_mutex_);  // why only the next start helps
  // The library's number of the last change before the error.
  uint64_t last_written_ ABSL_GUARDED_BY(reopen_mutex_) = 0;
  std::vector<std::pair<std::string, std::string>> sessions_ ABSL_GUARDED_BY(reopen_mutex_);
};

}  // namespace recollect::store::rocks
