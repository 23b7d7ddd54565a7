// Files to read, and how text in them begins.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

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

// Without the mark U+FEFF that some editors put before a text.
inline absl::string_view WithoutByteOrderMark(absl::string_view text) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  return text;
}

}  // namespace recollect
