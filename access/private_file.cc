#include "access/private_file.h"

#include <sys/stat.h>

#include "base/io/file.h"
#include "base/io/log.h"
#include "base/status.h"

namespace recollect::access {

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadWholeFile(path));
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && (info.st_mode & 0077) != 0) {
    LogWarning("{}: mode {:04o}, others may read or write it; expected 0600", path,
               info.st_mode & 07777);
  }
  return text;
}

}  // namespace recollect::access
