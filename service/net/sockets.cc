#include "service/net/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/io/host_port.h"
#include "base/io/log.h"

namespace recollect::service {
namespace {

constexpr char kGrpcScheme[] = "unix-abstract:";

// Without a descriptor: errno says why.
Descriptor ListenOn(const addrinfo& info) {
  constexpr int kOn = 1, kOff = 0;
  Descriptor fd(socket(info.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return fd;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn));
  if (info.ai_family == AF_INET6)  // [::] takes IPv4 too
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kOff, sizeof(kOff));
  if (bind(fd.get(), info.ai_addr, info.ai_addrlen) != 0 || listen(fd.get(), SOMAXCONN) != 0)
    return Descriptor();
  return fd;
}

in_port_t PortOf(const Descriptor& listener) {
  sockaddr_in6 bound{};
  socklen_t size = sizeof(bound);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size);
  return bound.sin6_port;  // where that of IPv4 lies too
}

}  // namespace

absl::StatusOr<Listeners> Listen(const std::string& address) {
  const auto refused = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address, ": ", why));
  };
  const HostPort asked = SplitHostPort(address);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(asked.host.c_str(), asked.port.c_str(), &hints, &found);
  if (error != 0) return refused(gai_strerror(error));
  const absl::Cleanup free = [found] { freeaddrinfo(found); };
  Listeners listeners;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    // All addresses of a name at one port, be it one that was free for the first.
    if (!listeners.sockets.empty())
      reinterpret_cast<sockaddr_in6*>(info->ai_addr)->sin6_port = PortOf(listeners.sockets.front());
    Descriptor listener = ListenOn(*info);
    const bool last_chance = listeners.sockets.empty() && info->ai_next == nullptr;
    if (listener.get() >= 0) {
      listeners.sockets.push_back(std::move(listener));
    } else if (last_chance || (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT)) {
      return refused(std::strerror(errno));  // localhost may lack one of its two addresses
    }
  }
  listeners.address = WithPort(address, ntohs(PortOf(listeners.sockets.front())));
  return listeners;
}

std::string NameOf(const sockaddr_storage& peer, socklen_t size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&peer), size, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown:0";
  }
  // An IPv4 address is written as such, also where it came to an IPv6 socket.
  const absl::string_view name = absl::StripPrefix(host, "::ffff:");
  return absl::StrContains(name, ':') ? absl::StrCat("[", name, "]:", port)
                                      : absl::StrCat(name, ":", port);
}

void SetName(int fd, const std::string& peer, uint64_t number) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // Names are the whole machine's.
  const std::string text = absl::StrCat(peer, "/", getpid(), ".", number);
  const size_t size = std::min(text.size(), sizeof(name.sun_path) - 1);
  std::memcpy(name.sun_path + 1, text.data(), size);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  if (bind(fd, reinterpret_cast<sockaddr*>(&name), bytes) != 0) {
    LogWarning("connection of {}: no name for it: {}", peer, std::strerror(errno));
  }
}

std::string PeerName(absl::string_view grpc_peer) {
  if (!absl::ConsumePrefix(&grpc_peer, kGrpcScheme)) return std::string(grpc_peer);
  return absl::StrReplaceAll(grpc_peer.substr(0, grpc_peer.find('/')),
                             {{"%5B", "["}, {"%5D", "]"}});
}

std::string PeerAddress(absl::string_view peer_name) {
  const size_t colon = peer_name.rfind(':');
  return std::string(peer_name.substr(0, colon == absl::string_view::npos ? 0 : colon));
}

}  // namespace recollect::service
