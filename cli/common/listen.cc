#include "cli/common/listen.h"

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/io/host_port.h"
#include "base/status.h"

namespace recollect::cli {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// gRPC says of a name that is none only that it cannot listen there.
absl::StatusOr<Addresses> Resolve(absl::string_view flag, const std::string& listen,
                                  const std::string& host) {
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (error == 0) return Addresses(found, freeaddrinfo);
  return absl::Status(
      error == EAI_AGAIN ? absl::StatusCode::kUnavailable : absl::StatusCode::kInvalidArgument,
      absl::StrCat(flag, ": '", listen, "': no address of the host '", host,
                   "': ", gai_strerror(error)));
}

}  // namespace

// gRPC takes more: a port modulo 2^16 or by name, no port for 443, sockets of other kinds.
absl::Status CheckListen(absl::string_view flag, const std::string& listen) {
  const auto [host, port] = SplitHostPort(listen);
  const bool brackets = absl::StartsWith(listen, "[") && !absl::StartsWith(host, "[");
  const bool host_ok = brackets || (!host.empty() && !absl::StrContains(host, ':') &&
                                    host != "unix" && host != "unix-abstract");
  const bool digits = std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  int number = 0;
  if (host_ok && digits && absl::SimpleAtoi(port, &number) && number <= 65535)
    return Resolve(flag, listen, host).status();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", listen, "', expected HOST:PORT with a port of 0 to 65535"));
}

absl::StatusOr<bool> IsLoopback(absl::string_view flag, const std::string& listen) {
  ASSIGN_OR_RETURN(const Addresses found, Resolve(flag, listen, SplitHostPort(listen).host));
  for (const addrinfo* info = found.get(); info != nullptr; info = info->ai_next)
    if (!IsLoopback(*info->ai_addr)) return false;
  return true;
}

}  // namespace recollect::cli
