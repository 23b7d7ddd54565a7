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
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/types.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/slice.h"
#include "rocksdb/write_batch.h"
#include "store/rocks/head.h"
#include "store/rocks/rocks_store.h"

namespace recollect::store {

// In the order of kFamilyNames in database.cc.
enum class Family : size_t {
  kMeta,
  kCatalog,
  kText,
  kTokens,
  kChunks,
  kLandmarks,
  kIngests,
  kSessions,
};
inline constexpr size_t kFamilies = 8;

// The library's lock on a directory, which the library does not take when it opens a database for
// reading.
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
  // Opens the database for reading, to inspect it before Open, which deletes files. Locks the
  // directory, changes none of its files, and has no sessions' chunks. Null if there is no database
  // yet. DATA_LOSS if the MANIFEST or the log is damaged.
  static absl::StatusOr<std::unique_ptr<Database>> OpenToRead(const RocksOptions& options,
                                                              rocksdb::Env* env);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::ColumnFamilyHandle* family(Family f) const { return handles_[static_cast<size_t>(f)]; }

  // All of the batch or nothing. After a failure (say, a full disk) the library refuses writes
  // until it is told to resume; the next Write does that first, so the store recovers by itself.
  absl::Status Write(rocksdb::WriteBatch& batch, Durability durability, absl::string_view what);

  // NOT_FOUND when there is none.
  absl::StatusOr<std::string> Get(Family f, const std::string& key, absl::string_view what);

  // One batched read of `keys` in ascending order. visit(i, status, bytes) is called for each, in
  // order; bytes are valid only during the call. Chunk data bypasses the block cache.
  void MultiGet(
      Family f, std::span<const std::string> keys,
      const std::function<void(size_t, const rocksdb::Status&, absl::string_view)>& visit);

  // Calls visit(key, value) for the keys from `from` on that start with `prefix`, in order, until
  // it returns false.
  absl::Status Scan(Family f, const std::string& from, absl::string_view prefix,
                    const std::function<bool(absl::string_view, absl::string_view)>& visit);

  // Deletes all keys of [begin, end) in families `families`: whole files are deleted at once, other
  // keys are marked.
  absl::Status DropRange(std::span<const Family> families, const std::string& begin,
                         const std::string& end, Durability durability);

  // Rewrites files that still contain dropped keys of the range, which frees their space. Slow.
  // Ends early once *canceled.
  absl::Status Compact(Family f, const std::string& begin, const std::string& end,
                       std::atomic<bool>* canceled);

  // Moves the log's contents into tables, so that the log's files are deleted. Does not flush
  // sessions' chunks.
  absl::Status Flush();

  int64_t ApproximateBytes() const;

  // Checks that every table can be opened: DATA_LOSS names a table whose end, which has its index,
  // is damaged. The library itself checks only some tables when it opens the database, and refuses
  // the database if one of them is damaged.
  absl::Status CheckTables() const;

  Head& head() const { return *head_; }

 private:
  Database() = default;
  absl::Status ResetSessions();

  bool sync_ = true;
  std::shared_ptr<Head> head_;
  std::unique_ptr<DirectoryLock> lock_;  // of OpenToRead; Open leaves it to the library
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> handles_{};
  // Counts failed writes, and failures of the library's own work.
  const std::shared_ptr<std::atomic<int64_t>> failures_ = std::make_shared<std::atomic<int64_t>>(0);
  // The value of *failures_ when the library last resumed successfully.
  std::atomic<int64_t> resumed_{0};
  std::mutex resume_mutex_;
};

}  // namespace recollect::store

#endif  // RECOLLECT_STORE_ROCKS_DATABASE_H_
