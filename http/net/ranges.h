// The headers that ask for a part of a body, and that say which part of a text a body is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recollect::http {

struct ByteRange {
  int64_t begin = 0, end = 0;  // bytes, `end` not included
};

// Which of `size` bytes `header` asks for ("bytes=0-9", "bytes=10-", "bytes=-10"), cut at `size`.
// Nothing: all of them, which RFC 9110 (14.2) has for a header of another unit, for one that cannot
// be read, and allows for one of several ranges. OUT_OF_RANGE, naming both values: no byte of it is
// there.
absl::StatusOr<std::optional<ByteRange>> ParseRange(absl::string_view header, int64_t size);

struct ContentRange {
  int64_t begin = 0, end = 0;    // bytes, `end` not included
  std::optional<int64_t> total;  // of the text; unknown: the part is the last

  int64_t size() const { return end - begin; }
  bool last() const { return total.value_or(end) == end; }
};

// "bytes 0-9/25" or "bytes 10-24/*". INVALID_ARGUMENT naming what is wrong.
absl::StatusOr<ContentRange> ParseContentRange(const std::string& header);

}  // namespace recollect::http
