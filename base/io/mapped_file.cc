#include "base/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace recollect {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    const std::string text = absl::StrCat(path, ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
  }
  struct stat information {};
  MappedFile file;
  bool good = fstat(descriptor, &information) == 0;
  const auto size = static_cast<size_t>(information.st_size);
  if (good && size > 0) {  // mmap refuses a length of 0
    const void* mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    good = mapping != MAP_FAILED;
    if (good) file.bytes_ = {static_cast<const std::byte*>(mapping), size};
  }
  const int error = errno;
  close(descriptor);
  if (!good) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be mapped: ", std::strerror(error)));
  }
  return file;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace recollect
