#include "base/io/file.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace recollect {
namespace {

absl::Status Failed(const std::string& path, int error) {
  return absl::Status(
      error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
      absl::StrCat(path, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<OpenFile> OpenToRead(const std::string& path) {
  OpenFile file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return Failed(path, errno);
  return file;
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenFile file, OpenToRead(path));
  std::string bytes;
  char buffer[1 << 16];
  while (const size_t size = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    bytes.append(buffer, size);
  }
  if (std::ferror(file.get()) != 0) return Failed(path, errno);
  return bytes;
}

}  // namespace recollect
