#include "base/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace recollect {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

absl::Status Failed(const std::string& path, int error) {
  return absl::Status(
      error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
      absl::StrCat(path, ": ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return Failed(path, errno);
  std::string bytes;
  char buffer[1 << 16];
  while (const size_t size = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    bytes.append(buffer, size);
  }
  if (std::ferror(file.get()) != 0) return Failed(path, errno);
  return bytes;
}

}  // namespace recollect
