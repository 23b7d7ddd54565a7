#include "client/probe.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/io/host_port.h"

namespace recollect::client {
namespace {

constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};
// A request that every server of HTTP/1 answers, and that asks for nothing.
constexpr absl::string_view kQuestion =
    "OPTIONS * HTTP/1.1\r\nHost: recollect\r\nConnection: close\r\n\r\n";
constexpr absl::string_view kAnswer = "HTTP/1.";

// The first bytes of what is answered to the question; empty: nothing is.
std::string FirstBytes(const addrinfo& to) {
  const int fd = socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC, to.ai_protocol);
  if (fd < 0) return "";
  const absl::Cleanup closed = [fd] { close(fd); };
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));  // of connect, too
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  std::string answer(kAnswer.size(), '\0');
  if (connect(fd, to.ai_addr, to.ai_addrlen) != 0 ||
      send(fd, kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) < 0 ||
      recv(fd, answer.data(), answer.size(), MSG_WAITALL) < 0) {
    return "";
  }
  return answer;
}

bool AnswersHttp(absl::string_view server) {
  const HostPort at = SplitHostPort(server);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (FirstBytes(*entry) == kAnswer) return true;
  }
  return false;
}

}  // namespace

absl::Status CheckNotHttp(const std::string& servers) {
  for (const absl::string_view server : absl::StrSplit(servers, ',')) {
    if (!AnswersHttp(server)) continue;
    return absl::UnavailableError(absl::StrCat(
        "HTTP answers at ", server,
        ", but this is a client of gRPC, which has another port: what serve prints as grpc= "
        "(--grpc-listen, 127.0.0.1:50051 unless it is given)"));
  }
  return absl::OkStatus();
}

}  // namespace recollect::client
