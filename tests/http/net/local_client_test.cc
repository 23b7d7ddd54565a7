// What the kernel says of the other end of a connection, of IPv4, of IPv6 and of both together.
#include "http/net/local_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace recollect::http {
namespace {

struct Families {
  const char* name;
  const char* server;  // listens at this IPv6 address
  const char* client;  // asks this one
};

class LocalClientTest : public ::testing::TestWithParam<Families> {
 protected:
  static sockaddr_in6 At(const char* address, in_port_t port) {
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_port = port;
    inet_pton(AF_INET6, address, &at.sin6_addr);
    return at;
  }
  void SetUp() override {
    listener_ = socket(AF_INET6, SOCK_STREAM, 0);
    const int off = 0;
    setsockopt(listener_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    sockaddr_in6 at = At(GetParam().server, 0);
    socklen_t size = sizeof(at);
    if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
        listen(listener_, 1) != 0)
      GTEST_SKIP() << "NOT TESTED: this machine has no IPv6";
    getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    Connect(at.sin6_port);
    server_ = accept(listener_, nullptr, nullptr);
    ASSERT_GE(server_, 0);
  }
  void TearDown() override {
    for (const int fd : {listener_, client_, server_})
      if (fd >= 0) close(fd);
  }
  void Connect(in_port_t port) {
    if (std::string(GetParam().client) == "127.0.0.1") {
      client_ = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = port;
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      ASSERT_EQ(connect(client_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
      return;
    }
    client_ = socket(AF_INET6, SOCK_STREAM, 0);
    const sockaddr_in6 to = At(GetParam().client, port);
    ASSERT_EQ(connect(client_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  }
  // All that the two systems take.
  void Fill() const {
    const std::string some(1 << 16, 'x');
    while (send(client_, some.data(), some.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
  }
  void CloseClient() {
    close(client_);
    client_ = -1;
  }

  int listener_ = -1, client_ = -1, server_ = -1;
};

TEST_P(LocalClientTest, AnEndBehindWhatNobodyReadsIsSeen) {
  EXPECT_FALSE(LocalClientHasClosed(server_));
  Fill();
  EXPECT_FALSE(LocalClientHasClosed(server_)) << "it waits";
  CloseClient();
  EXPECT_TRUE(LocalClientHasClosed(server_));
}

// It may wait for the answer.
TEST_P(LocalClientTest, AClientThatHasClosedOneSideIsThere) {
  Fill();
  shutdown(client_, SHUT_WR);
  EXPECT_FALSE(LocalClientHasClosed(server_));
}

TEST_P(LocalClientTest, OfWhatIsNoConnectionNothingIsKnown) {
  EXPECT_FALSE(LocalClientHasClosed(-1));
  EXPECT_FALSE(LocalClientHasClosed(STDIN_FILENO));
  EXPECT_FALSE(LocalClientHasClosed(listener_));
}

INSTANTIATE_TEST_SUITE_P(All, LocalClientTest,
                         ::testing::Values(Families{"IPv6", "::1", "::1"},
                                           Families{"IPv4", "::ffff:127.0.0.1", "127.0.0.1"},
                                           Families{"Both", "::", "127.0.0.1"}),
                         [](const auto& made) { return made.param.name; });

}  // namespace
}  // namespace recollect::http
