// Percent-encoding of paths and queries.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recollect::http {

// "%2F" to "/". INVALID_ARGUMENT: a '%' without two hexadecimal digits.
absl::StatusOr<std::string> DecodePercent(absl::string_view text);

// "after=a%20b&limit=3"; '+' is a space. INVALID_ARGUMENT also for a name that comes twice.
absl::StatusOr<std::map<std::string, std::string>> DecodeQuery(absl::string_view text);

}  // namespace recollect::http
