#include "cli/options.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "model/tokenizer.h"

namespace recollect::cli {

absl::Status CheckUtf8(const std::string& flag, const std::string& text) {
  const int64_t bad = model::FindInvalidUtf8(text, /*allow_partial_end=*/false);
  if (bad < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, ": not UTF-8 at byte ", bad));
}

absl::StatusOr<std::string> ReadInput(const std::string& path) {
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdin) std::fclose(file);
    }
  };
  const std::unique_ptr<std::FILE, Close> file(path == "-" ? stdin
                                                           : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string text;
  char buffer[1 << 16];
  size_t n;
  while ((n = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) text.append(buffer, n);
  if (std::ferror(file.get()))
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
  return text;
}

}  // namespace recollect::cli
