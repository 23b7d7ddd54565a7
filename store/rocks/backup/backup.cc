#include "store/rocks/backup/backup.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "rocksdb/utilities/backup_engine.h"
#include "store/format.h"
#include "store/rocks/db/data_directory.h"
#include "store/rocks/db/database.h"
#include "store/rocks/db/status.h"
#include "store/rocks/documents/store_impl.h"

namespace recollect::store::rocks {
namespace {

namespace fs = std::filesystem;

std::string Name(const std::string& directory) {
  return absl::StrCat("backup directory ", directory);
}
std::string Name(const std::string& directory, uint32_t number) {
  return absl::StrCat("backup ", number, " in ", directory);
}

// A file that a backup names and that is not there is lost.
absl::Status FromBackup(const rocksdb::Status& status, const std::string& what) {
  if (status.IsNotFound()) return absl::DataLossError(absl::StrCat(what, ": ", status.ToString()));
  return FromRocks(status, what);
}

absl::StatusOr<BackupInfo> Info(const std::string& directory, const rocksdb::BackupInfo& from) {
  ASSIGN_OR_RETURN(const HeadRecord head,
                   DecodeHead(HeadKey(), from.app_metadata, Name(directory, from.backup_id)));
  return BackupInfo{.number = from.backup_id,
                    .created_unix_s = from.timestamp,
                    .bytes = static_cast<int64_t>(from.size),
                    .files = from.number_files,
                    .documents = static_cast<int64_t>(head.catalog.documents)};
}

absl::StatusOr<std::unique_ptr<rocksdb::BackupEngineReadOnly>> OpenToRead(
    const std::string& directory) {
  std::error_code error;
  if (!fs::is_directory(fs::path(directory) / "meta", error)) {
    return absl::NotFoundError(absl::StrCat(Name(directory), ": has no backups"));
  }
  rocksdb::BackupEngineReadOnly* engine = nullptr;
  RETURN_IF_ERROR(
      FromBackup(rocksdb::BackupEngineReadOnly::Open(rocksdb::BackupEngineOptions(directory),
                                                     rocksdb::Env::Default(), &engine),
                 Name(directory)));
  return std::unique_ptr<rocksdb::BackupEngineReadOnly>(engine);
}

absl::StatusOr<std::vector<BackupInfo>> List(const std::string& directory,
                                             const rocksdb::BackupEngineReadOnly& engine) {
  std::vector<rocksdb::BackupInfo> whole;
  engine.GetBackupInfo(&whole);
  std::vector<BackupInfo> out;
  const auto damaged = [&](uint32_t number, const std::string& why) {
    BackupInfo& info = out.emplace_back();
    info.number = number;
    info.damage = why;
  };
  for (const rocksdb::BackupInfo& backup : whole) {
    absl::StatusOr<BackupInfo> info = Info(directory, backup);
    if (info.ok()) {
      out.push_back(*std::move(info));
    } else {
      damaged(backup.backup_id, std::string(info.status().message()));
    }
  }
  std::vector<rocksdb::BackupID> unreadable;
  engine.GetCorruptedBackups(&unreadable);
  for (const rocksdb::BackupID number : unreadable) {
    damaged(number, absl::StrCat(Name(directory, number),
                                 ": a file is missing or has another size than its list says"));
  }
  std::sort(out.begin(), out.end(),
            [](const BackupInfo& a, const BackupInfo& b) { return a.number < b.number; });
  return out;
}

// The backup of that number; DATA_LOSS if it is known to be damaged.
absl::StatusOr<BackupInfo> Find(const std::string& directory, uint32_t number,
                                const rocksdb::BackupEngineReadOnly& engine) {
  ASSIGN_OR_RETURN(const std::vector<BackupInfo> all, List(directory, engine));
  const auto found = std::find_if(all.begin(), all.end(), [&](const BackupInfo& info) {
    return number == 0 ? &info == &all.back() : info.number == number;
  });
  if (found == all.end()) {
    const auto add = [](std::string* out, const BackupInfo& info) {
      absl::StrAppend(out, info.number);
    };
    return absl::NotFoundError(absl::StrCat(Name(directory), ": has no backup ", number,
                                            "; it has ",
                                            all.empty() ? "none" : absl::StrJoin(all, ", ", add)));
  }
  if (!found->damage.empty()) return absl::DataLossError(found->damage);
  return *found;
}

// Whether `inner` is `outer` or lies in it.
bool LiesIn(const std::string& inner, const std::string& outer) {
  std::error_code error;
  const fs::path in = fs::weakly_canonical(inner + "/", error);
  const fs::path out = fs::weakly_canonical(outer + "/", error);
  const auto [end, unused] = std::mismatch(out.begin(), out.end(), in.begin(), in.end());
  // The last part of a path that ends in a slash is empty.
  return end == out.end() || (end->empty() && std::next(end) == out.end());
}

absl::Status CheckFresh(const std::string& data_directory) {
  std::error_code error;
  if (!fs::exists(data_directory, error)) return absl::OkStatus();
  if (fs::is_directory(data_directory, error) && fs::is_empty(data_directory, error)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("data directory ", data_directory,
                   " is in use or not empty: a backup is restored into a directory that is not "
                   "there yet"));
}

// Where a restore works: a directory beside the one it makes, with a lock, and in it what is not
// whole yet. The data directory is not there before it is; this one is none, so that nobody opens
// half of one.
class Workplace {
 public:
  // Takes over what a restore that was cut short has left. FAILED_PRECONDITION: another is running,
  // or something else is in it.
  static absl::StatusOr<std::unique_ptr<Workplace>> Create(const std::string& path) {
    // Both at once, as far as can be: with the second in it the first is taken for no data
    // directory.
    RETURN_IF_ERROR(MakeDirectory("directory", absl::StrCat(path, "/", kUnfinished)));
    auto lock = LockDirectory(path, rocksdb::Env::Default());
    if (absl::IsFailedPrecondition(lock.status())) {
      return absl::FailedPreconditionError(absl::StrCat(path, ": another restore is running"));
    }
    RETURN_IF_ERROR(lock.status());
    ASSIGN_OR_RETURN(std::set<std::string> others, NamesIn("directory", path));
    for (const char* own : {kLock, kUnfinished}) others.erase(own);
    if (!others.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is for what is being restored, but it has ", *others.begin()));
    }
    std::unique_ptr<Workplace> place(new Workplace(path, *std::move(lock)));
    std::error_code error;
    fs::remove_all(place->unfinished(), error);
    if (error) return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
    return place;
  }
  ~Workplace() {
    std::error_code error;
    fs::remove_all(unfinished(), error);
    // Whoever waits for the lock with the file in hand makes the directory anew.
    fs::remove(fs::path(path_) / kLock, error);
    fs::remove(path_, error);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  std::string unfinished() const { return absl::StrCat(path_, "/", kUnfinished); }

 private:
  static constexpr char kLock[] = "LOCK";
  static constexpr char kUnfinished[] = "unfinished";
  Workplace(std::string path, DirectoryLock lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}

  const std::string path_;
  const DirectoryLock lock_;
};

absl::Status Restore(rocksdb::BackupEngineReadOnly& engine, const BackupInfo& info,
                     const std::string& what, const std::string& into) {
  RETURN_IF_ERROR(FromBackup(
      engine.RestoreDBFromBackup(rocksdb::RestoreOptions(), info.number, into, into), what));
  rocksdb::BackupInfo backup;
  RETURN_IF_ERROR(FromBackup(engine.GetBackupInfo(info.number, &backup), what));
  RETURN_IF_ERROR(FromRocks(
      rocksdb::WriteStringToFile(rocksdb::Env::Default(), backup.app_metadata,
                                 absl::StrCat(into, "/", kHeadFile), /*should_sync=*/true),
      what));
  RocksOptions options;
  options.directory = into;
  ASSIGN_OR_RETURN(const auto store, OpenRocksStore(options));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BackupInfo> Database::Backup(const std::string& directory, uint32_t keep) {
  return Guarded("backup", [&]() -> absl::StatusOr<BackupInfo> {
    if (LiesIn(directory, options_.directory) || LiesIn(options_.directory, directory)) {
      return absl::InvalidArgumentError(absl::StrCat(Name(directory), " and data directory ",
                                                     options_.directory, ": one is in the other"));
    }
    RETURN_IF_ERROR(MakeDirectory("backup directory", directory));
    auto lock = LockDirectory(directory, env_);
    if (absl::IsFailedPrecondition(lock.status())) {
      return absl::AbortedError(absl::StrCat(Name(directory), ": another backup is being made"));
    }
    RETURN_IF_ERROR(lock.status());
    // Tables are shared with other backups, logs are not.
    RETURN_IF_ERROR(Flush());
    // Before the library's moment: what is published in between may be in the backup, and what was
    // published before must be.
    const HeadRecord head{.catalog = head_->catalog()};
    const Gate::Inside inside(gate_);
    RETURN_IF_ERROR(CheckWritable());
    rocksdb::BackupEngine* opened = nullptr;
    RETURN_IF_ERROR(FromBackup(
        rocksdb::BackupEngine::Open(rocksdb::BackupEngineOptions(directory), env_, &opened),
        Name(directory)));
    const std::unique_ptr<rocksdb::BackupEngine> engine(opened);
    rocksdb::BackupID number = 0;
    RETURN_IF_ERROR(
        FromBackup(engine->CreateNewBackupWithMetadata(rocksdb::CreateBackupOptions(), db_.get(),
                                                       EncodeHead(HeadKey(), head), &number),
                   Name(directory)));
    if (keep > 0) RETURN_IF_ERROR(FromBackup(engine->PurgeOldBackups(keep), Name(directory)));
    rocksdb::BackupInfo made;
    RETURN_IF_ERROR(FromBackup(engine->GetBackupInfo(number, &made), Name(directory, number)));
    return Info(directory, made);
  });
}

absl::StatusOr<std::vector<BackupInfo>> ListBackups(const std::string& directory) {
  return Guarded("backup", [&]() -> absl::StatusOr<std::vector<BackupInfo>> {
    ASSIGN_OR_RETURN(const auto engine, OpenToRead(directory));
    return List(directory, *engine);
  });
}

absl::StatusOr<std::vector<BackupInfo>> RocksStore::ListBackups(const std::string& directory) {
  return rocks::ListBackups(directory);
}

absl::StatusOr<BackupInfo> VerifyBackup(const std::string& directory, uint32_t number) {
  return Guarded("backup", [&]() -> absl::StatusOr<BackupInfo> {
    ASSIGN_OR_RETURN(const auto engine, OpenToRead(directory));
    ASSIGN_OR_RETURN(const BackupInfo info, Find(directory, number, *engine));
    RETURN_IF_ERROR(FromBackup(engine->VerifyBackup(info.number, /*verify_with_checksum=*/true),
                               Name(directory, info.number)));
    return info;
  });
}

absl::StatusOr<BackupInfo> RestoreBackup(const std::string& directory, uint32_t number,
                                         const std::string& data_directory) {
  return Guarded("backup", [&]() -> absl::StatusOr<BackupInfo> {
    RETURN_IF_ERROR(CheckFresh(data_directory));
    ASSIGN_OR_RETURN(auto engine, OpenToRead(directory));
    ASSIGN_OR_RETURN(const BackupInfo info, Find(directory, number, *engine));
    // Without a slash at the end, which would put the next name inside.
    const fs::path target = (fs::absolute(data_directory) / "").lexically_normal().parent_path();
    ASSIGN_OR_RETURN(const auto place, Workplace::Create(target.string() + ".restoring"));
    const std::string unfinished = place->unfinished();
    RETURN_IF_ERROR(MakeDirectory("data directory", unfinished));
    const absl::Status status = Restore(*engine, info, Name(directory, info.number), unfinished);
    engine.reset();  // after an error its threads may still be writing
    RETURN_IF_ERROR(status);
    std::error_code error;
    fs::rename(unfinished, target, error);  // onto an empty directory, too
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("data directory ", data_directory, ": ", error.message()));
    }
    return info;
  });
}

}  // namespace recollect::store::rocks
