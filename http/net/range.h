// The header that asks for a part of a body.
#ifndef RECOLLECT_HTTP_NET_RANGE_H_
#define RECOLLECT_HTTP_NET_RANGE_H_

#include <cstdint>
#include <optional>

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

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_NET_RANGE_H_
