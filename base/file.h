// Files to read.
#ifndef RECOLLECT_BASE_FILE_H_
#define RECOLLECT_BASE_FILE_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace recollect {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using OpenFile = std::unique_ptr<std::FILE, CloseFile>;

// Opens a file to read. Statuses as below.
absl::StatusOr<OpenFile> OpenToRead(const std::string& path);

// The bytes of the file. NOT_FOUND if it does not exist, INVALID_ARGUMENT if it cannot be read (for
// example, a directory); both name the file and the reason.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace recollect

#endif  // RECOLLECT_BASE_FILE_H_
