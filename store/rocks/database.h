// One open RocksDB with our column families and options. Moves keys and bytes; knows no documents.
#ifndef RECOLLECT_STORE_ROCKS_DATABASE_H_
#define RECOLLECT_STORE_ROCKS_DATABASE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/types.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/slice.h"
#include "store/rocks/batch.h"
#include "store/rocks/database_options.h"
#include "store/rocks/gate.h"
#include "store/rocks/head.h"
#include "store/rocks/rocks_store.h"

namespace recollect::store {

// The library's lock of a directory, which it does not take itself to open a database to read.
class DirectoryLock {
 public:
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Create(const std::string& directory,
                                                               rocksdb::Env* env);
  ~DirectoryLock() { (void)env_->UnlockFile(lock_); }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  DirectoryLock(rocksdb::Env* env, rocksdb::FileLock* lock) : env_(env), lock_(lock) {}
  rocksdb::Env* const env_;
  rocksdb::FileLock* const lock_;
};

inline rocksdb::Slice ToSlice(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }
inline absl::string_view ToView(const rocksdb::Slice& bytes) {
  return {bytes.data(), bytes.size()};
}

// Thread-safe.
class Database {
 public:
  enum class Durability {
    kSynced,  // survives power loss, or a crash of the process only, as RocksOptions says
    kLogged,  // survives a crash of the process; power loss once a synced write has followed
    kNone,    // may vanish with the process: sessions' chunks
  };

  // Codes as OpenRocksStore. Sessions' chunks of an earlier process are dropped. `env` null: the
  // system's; otherwise outlives the result.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const RocksOptions& options,
                                                        rocksdb::Env* env);
  // To look before Open, which deletes files: holds the directory, changes none of its files, and
  // has no sessions. Null when there is no database yet. DATA_LOSS when the MANIFEST or the log
  // is damaged.
  static absl::StatusOr<std::unique_ptr<Database>> OpenToRead(const RocksOptions& options,
                                                              rocksdb::Env* env);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // All of the batch or nothing. RESOURCE_EXHAUSTED naming the bytes that are needed and free,
  // with nothing touched, where the disk might fill up. After an error of the disk all is as it
  // was, to be read, but nothing is written any more; each Write first opens the database again,
  // once there is room for that, so the store comes back by itself.
  absl::Status Write(const Batch& batch, Durability durability, absl::string_view what);

  // NOT_FOUND when there is none.
  absl::StatusOr<std::string> Get(Family f, const std::string& key, absl::string_view what);

  // One batched read of `keys` in ascending order. visit(i, status, bytes) is called for each, in
  // order; bytes live only during the call. Chunk data passes the block cache by.
  void MultiGet(
      Family f, std::span<const std::string> keys,
      const std::function<void(size_t, const rocksdb::Status&, absl::string_view)>& visit);

  // Calls visit(key, value) for the keys from `from` on that start with `prefix`, in order, until
  // it returns false.
  absl::Status Scan(Family f, const std::string& from, absl::string_view prefix,
                    const std::function<bool(absl::string_view, absl::string_view)>& visit);

  // Deletes all keys of [begin, end) in families `families`: whole files at once, the rest marked.
  absl::Status DropRange(std::span<const Family> families, const std::string& begin,
                         const std::string& end, Durability durability);

  // Rewrites what still holds dropped keys of the range, so that their space returns. Slow. Ends
  // early once *canceled.
  absl::Status Compact(Family f, const std::string& begin, const std::string& end,
                       std::atomic<bool>* canceled);

  // Moves what is in the log into tables, so that the log's files go. Leaves sessions' chunks.
  absl::Status Flush();

  int64_t ApproximateBytes() const;

  // That every table can be opened: DATA_LOSS names one of which the end, where its index lies, is
  // damaged. The library looks at a few when it opens the database, and refuses it for one of them.
  absl::Status CheckTables() const;

  Head& head() const { return *head_; }

 private:
  Database(const RocksOptions& options, rocksdb::Env* env)
      : options_(options), env_(env != nullptr ? env : rocksdb::Env::Default()) {}
  rocksdb::ColumnFamilyHandle* family(Family f) const { return handles_[static_cast<size_t>(f)]; }
  absl::Status ResetSessions();
  // REQUIRES of the next three: inside the gate.
  absl::Status CheckOpen() const;
  absl::Status CheckWritable() const;
  // RESOURCE_EXHAUSTED unless the disk has room for `bytes` in the log; and, where the reserve is
  // left alone, for tables of them and of all that is in memory only.
  absl::Status CheckRoom(int64_t bytes, bool uses_reserve) const;

  // reopen.cc
  // After an error. RESOURCE_EXHAUSTED when there is no room for that yet.
  absl::Status Reopen();
  // REQUIRES of the next three: nobody else uses the library.
  absl::Status OpenLibrary();
  absl::Status OpenLibraryToRead();
  absl::Status CloseLibrary();
  // What of the sessions' chunks is in memory only, out of the library and into it.
  void KeepSessions();
  absl::Status RestoreSessions();

  const RocksOptions options_;
  rocksdb::Env* const env_;
  std::shared_ptr<Head> head_;
  // Of a database that is open to read; of others the library has it.
  std::unique_ptr<DirectoryLock> lock_;

  // Whoever uses the library is inside.
  mutable Gate gate_;
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> handles_{};

  // The library refuses writes, or is about to.
  const std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex reopen_mutex_;
  absl::Status unmendable_;    // why only the next start helps
  uint64_t last_written_ = 0;  // the library's number of the last change before the error
  std::vector<std::pair<std::string, std::string>> sessions_;
};

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_ROCKS_DATABASE_H_
