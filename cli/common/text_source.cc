#include "cli/common/text_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace recollect::cli {

absl::StatusOr<std::unique_ptr<TextSource>> TextSource::Open(const std::string& path) {
  auto source = std::make_unique<TextSource>();
  source->path_ = path == "-" ? "standard input" : path;
  source->file_.reset(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  struct stat info {};
  if (source->file_ == nullptr || fstat(fileno(source->file_.get()), &info) != 0) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  if (S_ISDIR(info.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory"));
  if (S_ISREG(info.st_mode)) {
    source->seekable_ = path != "-";  // `< file` may start in its middle
    source->size_ = info.st_size;
  }
  return source;
}

absl::StatusOr<std::string> TextSource::Read(int64_t offset, int64_t limit) {
  if (seekable_ && offset != position_) {
    if (offset > size_) {
      return absl::OutOfRangeError(absl::StrCat(
          path_, ": ", size_, " bytes, but an earlier ingest of this id had read ", offset));
    }
    if (fseeko(file_.get(), offset, SEEK_SET) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": ", std::strerror(errno)));
    }
    position_ = offset;
  }
  if (offset < position_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": at byte ", position_, ", cannot go back to ", offset));
  }
  std::string text;
  while (position_ < offset) {  // what an earlier ingest has committed
    text.resize(std::min<int64_t>(offset - position_, 1 << 20));
    const size_t n = std::fread(text.data(), 1, text.size(), file_.get());
    if (n == 0) {
      return absl::OutOfRangeError(absl::StrCat(path_, ": ends at byte ", position_,
                                                ", but an earlier ingest of this id had read ",
                                                offset));
    }
    position_ += static_cast<int64_t>(n);
  }
  text.resize(limit);
  const size_t n = std::fread(text.data(), 1, text.size(), file_.get());
  if (n == 0 && std::ferror(file_.get())) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", std::strerror(errno)));
  }
  text.resize(n);
  position_ += static_cast<int64_t>(n);
  return text;
}

}  // namespace recollect::cli
