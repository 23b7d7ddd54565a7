#include "store/rocks/db/data_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/io/log.h"
#include "base/status.h"
#include "rocksdb/db.h"
#include "store/rocks/db/head.h"
#include "store/rocks/db/status.h"

namespace recollect::store::rocks {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnerOnly = 0700;

absl::Status DirectoryError(const std::string& what, const std::string& directory,
                            const std::error_code& error) {
  const auto code = error == std::errc::no_space_on_device ? absl::StatusCode::kResourceExhausted
                                                           : absl::StatusCode::kFailedPrecondition;
  return absl::Status(code, absl::StrCat(what, " ", directory, ": ", error.message()));
}

// A directory of before there were heads.
bool IsOlderDatabase(const std::string& directory) {
  std::vector<std::string> families;
  const rocksdb::Status listed =
      rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), directory, &families);
  return listed.ok() && std::count(families.begin(), families.end(), "catalog") > 0 &&
         std::count(families.begin(), families.end(), "landmarks") > 0;
}

}  // namespace

// Directories above keep the usual mode: they may be anybody's.
absl::Status MakeDirectory(const std::string& what, const std::string& directory) {
  std::error_code error;
  // Absolute, since a name alone has no parent to make.
  const fs::path path = fs::absolute(directory + "/", error).lexically_normal().parent_path();
  if (!error) fs::create_directories(path.parent_path(), error);
  if (!error && mkdir(path.c_str(), kOwnerOnly) != 0 && errno != EEXIST) {
    error = {errno, std::generic_category()};
  }
  if (!error && !fs::is_directory(path, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  return error ? DirectoryError(what, directory, error) : absl::OkStatus();
}

absl::StatusOr<std::set<std::string>> NamesIn(const std::string& what,
                                              const std::string& directory) {
  std::set<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    names.insert(entries->path().filename().string());
  }
  if (error) return DirectoryError(what, directory, error);
  return names;
}

absl::Status PrepareDataDirectory(const std::string& directory) {
  RETURN_IF_ERROR(MakeDirectory("data directory", directory));
  std::error_code error;
  const auto mode = static_cast<unsigned>(fs::status(directory, error).permissions()) & 0777u;
  if (!error && (mode & 0077u) != 0) {
    LogWarning("data directory {} has mode {:04o}: other users may read documents; chmod 0700 it",
               directory, mode);
  }
  ASSIGN_OR_RETURN(std::set<std::string> names, NamesIn("data directory", directory));
  if (names.contains(kHeadFile)) return absl::OkStatus();
  // What a first start that was cut short leaves, the root of a file system, and the folder of
  // added models, which is in the default data directory.
  for (const char* name : {"LOCK", "RECOLLECT.new", "lost+found", "models"}) names.erase(name);
  if (names.empty()) return absl::OkStatus();
  if (names.contains("CURRENT") && IsOlderDatabase(directory)) return absl::OkStatus();
  constexpr size_t kNamed = 3;
  std::vector<std::string> found(names.begin(),
                                 std::next(names.begin(), std::min(kNamed, names.size())));
  if (names.size() > kNamed) found.push_back(absl::StrCat(names.size() - kNamed, " more"));
  return absl::FailedPreconditionError(
      absl::StrCat("data directory ", directory, " is neither empty nor one of Recollect: it has ",
                   absl::StrJoin(found, ", ")));
}

}  // namespace recollect::store::rocks
