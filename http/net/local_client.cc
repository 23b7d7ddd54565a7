#include "http/net/local_client.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace recollect::http {
namespace {

struct Question {
  nlmsghdr head;
  inet_diag_req_v2 asked;
};

struct End {
  bool v4 = false;
  uint16_t port = 0;         // in network order, like the next
  uint32_t address[4] = {};  // of IPv4 the first
};

using GetName = int (*)(int, sockaddr*, socklen_t*);

// An IPv4 client of a server that listens on [::] has an address within IPv6's.
std::optional<End> EndOf(int fd, GetName get_name) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (get_name(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return std::nullopt;
  End end;
  if (name.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(name);
    end = {.v4 = true, .port = v4.sin_port, .address = {v4.sin_addr.s_addr}};
    return end;
  }
  if (name.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(name);
  end.port = v6.sin6_port;
  std::memcpy(end.address, v6.sin6_addr.s6_addr, sizeof(end.address));
  end.v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
  if (end.v4) std::swap(end.address[0], end.address[3]);
  return end;
}

// About the socket from which `from` speaks to `to`.
Question QuestionAbout(const End& from, const End& to) {
  Question question{};
  question.head.nlmsg_len = sizeof(question);
  question.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.head.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& asked = question.asked;
  asked.sdiag_family = from.v4 ? AF_INET : AF_INET6;
  asked.sdiag_protocol = IPPROTO_TCP;
  asked.idiag_states = ~uint32_t{0};
  const size_t words = from.v4 ? 1 : 4;
  std::copy_n(from.address, words, asked.id.idiag_src);
  std::copy_n(to.address, words, asked.id.idiag_dst);
  asked.id.idiag_sport = from.port;
  asked.id.idiag_dport = to.port;
  std::fill(std::begin(asked.id.idiag_cookie), std::end(asked.id.idiag_cookie), INET_DIAG_NOCOOKIE);
  return question;
}

}  // namespace

bool LocalClientHasClosed(int fd) {
  const std::optional<End> client = EndOf(fd, getpeername), server = EndOf(fd, getsockname);
  if (!client.has_value() || !server.has_value()) return false;
  const int kernel = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (kernel < 0) return false;
  const absl::Cleanup closed = [kernel] { close(kernel); };
  const Question question = QuestionAbout(*client, *server);
  if (send(kernel, &question, sizeof(question), 0) < 0) return false;
  struct {
    nlmsghdr head;
    inet_diag_msg found;
    char more[1024];  // attributes that nobody asked for
  } answer{};
  const ssize_t size = recv(kernel, &answer, sizeof(answer), MSG_DONTWAIT);
  if (size < static_cast<ssize_t>(offsetof(decltype(answer), more)) ||
      answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return false;  // there is none such on this machine
  return answer.found.idiag_state == TCP_FIN_WAIT1 && answer.found.idiag_inode == 0;
}

}  // namespace recollect::http
