// Files that only their owner should be able to read.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace recollect::access {

// ReadWholeFile, with a warning in the log if others than the owner may read or write it.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path);

}  // namespace recollect::access
