// Finds out what answers at an address where no gRPC server does. Internal to the library.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace recollect::client {

// UNAVAILABLE, naming the server and where gRPC is to be looked for: one of the servers
// ("name:50051,other:50051") answers plain HTTP/1. OK: none does within a second, or they cannot be
// asked.
absl::Status CheckNotHttp(const std::string& servers);

}  // namespace recollect::client
