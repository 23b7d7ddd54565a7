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

// The bytes of the file. NOT_FOUND when there is none, INVALID_ARGUMENT when it cannot be read (a
// directory opens, too); both name it and say why.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace recollect

#endif  // RECOLLECT_BASE_FILE_H_
