// The header that says which part of a text a body is.
#ifndef RECOLLECT_HTTP_NET_CONTENT_RANGE_H_
#define RECOLLECT_HTTP_NET_CONTENT_RANGE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace recollect::http {

struct ContentRange {
  int64_t begin = 0, end = 0;    // bytes, `end` not included
  std::optional<int64_t> total;  // of the text; unknown: the part is the last

  int64_t size() const { return end - begin; }
  bool last() const { return total.value_or(end) == end; }
};

// "bytes 0-9/25" or "bytes 10-24/*". INVALID_ARGUMENT naming what is wrong.
absl::StatusOr<ContentRange> ParseContentRange(const std::string& header);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_NET_CONTENT_RANGE_H_
