#include "store/rocks/rocks_cache.h"

#include <algorithm>
#include <atomic>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/io/log.h"
#include "base/status.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/listener.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "store/rocks/db/data_directory.h"
#include "store/rocks/db/database_options.h"
#include "store/rocks/db/status.h"
#include "store/store_errors.h"

namespace recollect::store::rocks {
namespace {

// Tells a cache from other files, so that nothing else is ever emptied.
constexpr char kMark[] = "RECOLLECT-CACHE";

// The budget is kept by whole files. Each is one write buffer, of which there may be four in
// memory; a read asks the filter of each file. 64 files, or more where a buffer would be larger
// than this.
constexpr int64_t kFiles = 64;
constexpr int64_t kMaxBufferBytes = int64_t{64} << 20;
constexpr int kBuffers = 4;
// Of the disk, left to others: then nothing is added.
constexpr int64_t kReserveBytes = int64_t{64} << 20;

int64_t BufferBytes(int64_t budget_bytes) {
  return std::clamp<int64_t>(budget_bytes / kFiles, int64_t{1} << 18, kMaxBufferBytes);
}

class WriteErrors final : public rocksdb::EventListener {
 public:
  explicit WriteErrors(std::shared_ptr<std::atomic<bool>> failed) : failed_(std::move(failed)) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) override {
    if (!failed_->exchange(true)) {
      LogError("the cache on this disk takes no more records until the next start: {}",
               error->ToString());
    }
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }

 private:
  const std::shared_ptr<std::atomic<bool>> failed_;
};

rocksdb::Options CacheOptions(int64_t budget_bytes, std::shared_ptr<std::atomic<bool>> failed) {
  const int64_t buffer = BufferBytes(budget_bytes);
  rocksdb::Options options(DatabaseOptions(rocksdb::Env::Default(), /*accept_data_loss=*/false),
                           rocksdb::ColumnFamilyOptions());
  options.track_and_verify_wals_in_manifest = false;  // nothing is ever in a log
  options.listeners = {std::make_shared<WriteErrors>(std::move(failed))};
  options.compaction_style = rocksdb::kCompactionStyleFIFO;
  // A file that is being written comes on top, and the MANIFEST.
  options.compaction_options_fifo.max_table_files_size =
      static_cast<uint64_t>(budget_bytes - 4 * buffer);
  // Files are only ever dropped: a damaged one is in nobody's way.
  options.compaction_options_fifo.allow_compaction = false;
  options.ttl = 0;
  options.periodic_compaction_seconds = 0;
  options.write_buffer_size = static_cast<size_t>(buffer);
  options.max_write_buffer_number = kBuffers;
  options.compression = rocksdb::kNoCompression;  // chunk states do not compress
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = true;  // the engine keeps chunk states in memory itself
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

absl::Status PrepareDirectory(const std::string& directory) {
  RETURN_IF_ERROR(MakeDirectory("cache directory", directory));
  const auto failed = [&](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat("cache directory ", directory, why));
  };
  ASSIGN_OR_RETURN(std::set<std::string> names, NamesIn("cache directory", directory));
  names.erase("lost+found");
  if (names.contains(kMark)) return absl::OkStatus();
  if (!names.empty()) {
    return failed(
        absl::StrCat(" is neither empty nor a cache of Recollect: it has ", *names.begin()));
  }
  std::ofstream out(directory + "/" + kMark);
  out << "A cache of Recollect. It may be removed while no server uses it.\n";
  out.close();
  return out ? absl::OkStatus() : failed(absl::StrCat(": cannot write ", kMark));
}

class RocksCache final : public RecordCache {
 public:
  explicit RocksCache(const RocksCacheOptions& options) : options_(options) {}

  ~RocksCache() override {
    if (db_ == nullptr) return;
    const absl::Status closed = Guarded("closing the cache", [&]() -> absl::Status {
      // What is in memory is in no log.
      if (!*failed_ && HasRoom())
        RETURN_IF_ERROR(FromRocks(db_->Flush(rocksdb::FlushOptions()), "flush"));
      return FromRocks(db_->Close(), "close");
    });
    LogIfFailed(Annotate(closed, options_.directory));
  }

  absl::Status Open() {
    return Guarded("opening the cache", [&]() -> absl::Status {
      const rocksdb::Options options = CacheOptions(options_.budget_bytes, failed_);
      rocksdb::DB* db = nullptr;
      rocksdb::Status opened = rocksdb::DB::Open(options, options_.directory, &db);
      if (absl::IsDataLoss(OpenStatus(opened))) {
        LogWarning("the cache in {} is damaged, and begins empty: {}", options_.directory,
                   opened.ToString());
        RETURN_IF_ERROR(OpenStatus(rocksdb::DestroyDB(options_.directory, options)));
        opened = rocksdb::DB::Open(options, options_.directory, &db);
      }
      RETURN_IF_ERROR(OpenStatus(opened));
      db_.reset(db);
      return absl::OkStatus();
    });
  }

  std::vector<std::optional<std::string>> Get(std::span<const std::string> keys) override {
    std::vector<std::optional<std::string>> out(keys.size());
    const absl::Status got = Guarded("reading the cache", [&]() -> absl::Status {
      rocksdb::ReadOptions read;
      read.fill_cache = false;
      const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
      std::vector<rocksdb::PinnableSlice> values(keys.size());
      std::vector<rocksdb::Status> statuses(keys.size());
      db_->MultiGet(read, db_->DefaultColumnFamily(), keys.size(), slices.data(), values.data(),
                    statuses.data());
      for (size_t i = 0; i < keys.size(); ++i) {
        if (statuses[i].ok()) {
          out[i] = values[i].ToString();
        } else if (!statuses[i].IsNotFound()) {
          LogWarning("{}: a record cannot be read: {}", options_.directory, statuses[i].ToString());
        }
      }
      return absl::OkStatus();
    });
    LogIfFailed(got);
    return out;
  }

  void Put(std::span<const std::pair<std::string, std::string>> records) override {
    if (*failed_ || !TakesMore()) return;
    const absl::Status put = Guarded("writing the cache", [&]() -> absl::Status {
      rocksdb::WriteOptions write;
      write.disableWAL = true;
      write.no_slowdown = true;  // better not kept than a reader that waits
      rocksdb::WriteBatch batch;
      for (const auto& [key, record] : records) batch.Put(key, record).PermitUncheckedError();
      const rocksdb::Status written = db_->Write(write, &batch);
      return written.IsIncomplete() ? absl::OkStatus() : FromRocks(written, "write");
    });
    if (!*failed_) LogIfFailed(Annotate(put, options_.directory));
  }

  State state() override {
    uint64_t bytes = 0;
    db_->GetIntProperty(rocksdb::DB::Properties::kTotalSstFilesSize, &bytes);
    return {static_cast<int64_t>(bytes), options_.budget_bytes, *failed_ || full_};
  }

 private:
  absl::Status OpenStatus(const rocksdb::Status& status) const {
    return FromRocksOpen(status, options_.directory, "cache directory");
  }
  // For what is in memory too: the library does not survive a file that cannot be finished.
  bool HasRoom() const {
    uint64_t free = 0;
    if (!rocksdb::Env::Default()->GetFreeSpace(options_.directory, &free).ok()) return true;
    return free >= static_cast<uint64_t>(NeededBytes());
  }

  // HasRoom, and says so when that changes.
  bool TakesMore() {
    const bool full = !HasRoom();
    if (full_.exchange(full) == full) return !full;
    if (full) {
      LogWarning("the cache in {} takes no more records until its disk has {} bytes free",
                 options_.directory, NeededBytes());
    } else {
      LogInfo("the cache in {} takes records again", options_.directory);
    }
    return !full;
  }
  int64_t NeededBytes() const {
    return kBuffers * BufferBytes(options_.budget_bytes) + kReserveBytes;
  }

  const RocksCacheOptions options_;
  std::atomic<bool> full_{false};
  const std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordCache>> OpenRocksCache(const RocksCacheOptions& options) {
  if (options.budget_bytes < kMinCacheBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a cache of ", options.budget_bytes,
                                                   " bytes, expected at least ", kMinCacheBytes));
  }
  RETURN_IF_ERROR(PrepareDirectory(options.directory));
  auto cache = std::make_unique<RocksCache>(options);
  RETURN_IF_ERROR(cache->Open());
  return cache;
}

}  // namespace recollect::store::rocks
