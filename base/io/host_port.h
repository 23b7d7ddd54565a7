// Addresses of the form HOST:PORT: "localhost:50051", "[::1]:0".
#pragma once

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace recollect {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  std::string port;  // what stands behind the last colon, whatever it is; empty without one
};

inline HostPort SplitHostPort(absl::string_view address) {
  const size_t colon = std::min(address.rfind(':'), address.size());
  absl::string_view host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return {std::string(host), std::string(address.substr(std::min(colon + 1, address.size())))};
}

// Returns the address with another port.
inline std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace recollect
