#include "access/keys_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "access/private_file.h"
#include "base/io/file.h"
#include "base/status.h"

namespace recollect::access {
namespace {

bool HoldsKey(absl::string_view line) {
  line = absl::StripAsciiWhitespace(WithoutByteOrderMark(line));
  return !line.empty() && line.front() != '#';
}

absl::Status CheckNew(const std::vector<Key>& keys, const Key& key) {
  for (const Key& other : keys) {
    if (other.name == key.name)
      return absl::InvalidArgumentError(
          absl::StrCat("name: '", key.name, "' is that of an earlier line"));
    if (other.sha256 == key.sha256) {
      return absl::InvalidArgumentError(absl::StrCat("sha256: that of key '", other.name, "'"));
    }
  }
  if (keys.size() < kMaxKeys) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("more than ", kMaxKeys, " keys"));
}

// The file's owner, or that of the directory in which it is to be.
void GiveToOwner(int fd, const std::string& path) {
  struct stat info;
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (stat(path.c_str(), &info) != 0 &&
      stat(directory.empty() ? "." : directory.c_str(), &info) != 0)
    return;
  (void)!fchown(fd, info.st_uid, info.st_gid);  // refused to all but root, to whom it matters
}

absl::Status WriteKeys(const std::string& path, const std::string& text) {
  const auto failed = [&] {
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  };
  const std::string beside = absl::StrCat(path, ".new");
  unlink(beside.c_str());  // of a process that was killed
  const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return failed();
  absl::Cleanup remove = [&] { unlink(beside.c_str()); };
  GiveToOwner(fd, path);
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  if (close(fd) != 0 || !written || std::rename(beside.c_str(), path.c_str()) != 0) return failed();
  std::move(remove).Cancel();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Key>> ParseKeys(absl::string_view text) {
  std::vector<Key> keys;
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (!HoldsKey(line)) continue;
    const std::string where = absl::StrCat("line ", number);
    absl::StatusOr<Key> key = DecodeKey(line);
    if (!key.ok()) return Annotate(key.status(), where);
    if (absl::Status added = CheckNew(keys, *key); !added.ok()) return Annotate(added, where);
    keys.push_back(*std::move(key));
  }
  return keys;
}

absl::StatusOr<std::vector<Key>> LoadKeys(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(path));
  absl::StatusOr<std::vector<Key>> keys = ParseKeys(text);
  if (!keys.ok()) return Annotate(keys.status(), path);
  return keys;
}

absl::Status AddKey(const std::string& path, const Key& key) {
  RETURN_IF_ERROR(DecodeKey(EncodeKey(key)).status());
  absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok() && !absl::IsNotFound(text.status())) return text.status();
  std::string all = text.ok() ? *std::move(text) : "";
  ASSIGN_OR_RETURN(const std::vector<Key> keys, ParseKeys(all));
  for (const Key& other : keys) {
    if (other.name == key.name)
      return absl::AlreadyExistsError(absl::StrCat(path, ": there is a key '", key.name, "'"));
  }
  if (absl::Status added = CheckNew(keys, key); !added.ok()) return Annotate(added, path);
  if (!all.empty() && all.back() != '\n') all += '\n';
  return WriteKeys(path, absl::StrCat(all, EncodeKey(key), "\n"));
}

absl::Status RemoveKey(const std::string& path, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  if (absl::Status parsed = ParseKeys(text).status(); !parsed.ok()) return Annotate(parsed, path);
  std::string left;
  bool found = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const bool is_it = HoldsKey(line) && DecodeKey(line)->name == name;
    found = found || is_it;
    if (!is_it) absl::StrAppend(&left, line, "\n");
  }
  if (!found) return absl::NotFoundError(absl::StrCat(path, ": there is no key '", name, "'"));
  left.pop_back();  // what follows the last end of line is no line
  return WriteKeys(path, left);
}

}  // namespace recollect::access
