// Addresses on which a server is told to listen.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recollect::cli {

// HOST:PORT whose host has an address. INVALID_ARGUMENT naming flag and value; UNAVAILABLE: no name
// server answers.
absl::Status CheckListen(absl::string_view flag, const std::string& listen);

// Whether all addresses of the host are ones that only this machine can reach. REQUIRES:
// CheckListen is OK; errors as there.
absl::StatusOr<bool> IsLoopback(absl::string_view flag, const std::string& listen);

}  // namespace recollect::cli
