// Checks that text is UTF-8, and says of other text what it looks like and how to convert it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace recollect::cli {

class Utf8Check {
 public:
  // `path`: of the text, for the command that converts it; "-" is standard input.
  explicit Utf8Check(std::string path) : path_(std::move(path)) {}

  // Takes a piece, which lies at `offset` of the text: behind the piece before, or anywhere, as
  // after a resumed ingest. An empty one is the end. INVALID_ARGUMENT names the first byte that is
  // not UTF-8 and the encoding that the piece looks like; also of UTF-16 in which every byte
  // happens to be UTF-8.
  absl::Status Take(int64_t offset, absl::string_view piece);

 private:
  const std::string path_;
  int64_t next_ = 0;  // offset behind the last piece
  std::string cut_;   // the character that its end cuts
};

}  // namespace recollect::cli
