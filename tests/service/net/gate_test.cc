#include "service/net/gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/net/frame_scanner.h"
#include "service/net/sockets.h"

namespace recollect::service {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload = "") {
  std::string frame(FrameHeader::kBytes, '\0');
  frame[1] = static_cast<char>(payload.size() >> 8);
  frame[2] = static_cast<char>(payload.size());
  frame[3] = static_cast<char>(type);
  frame[4] = static_cast<char>(flags);
  for (int i = 0; i < 4; ++i) frame[5 + i] = static_cast<char>(stream >> (24 - 8 * i));
  return frame + payload;
}

TEST(FrameScannerTest, FindsTheSameHeadersInAnyPieces) {
  const std::string bytes = kPreface + Frame(FrameHeader::kHeaders, 4, 7, std::string(300, 'x')) +
                            Frame(FrameHeader::kResetStream, 0, 0x7fffffff, "1234") +
                            Frame(FrameHeader::kData, FrameHeader::kEndStream, 9);
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    FrameScanner scanner(sizeof(kPreface) - 1);
    std::vector<std::string> found;
    size_t passed = 0;
    for (size_t end = piece; passed < bytes.size(); end = std::min(end + piece, bytes.size())) {
      passed += scanner.Scan({bytes.data() + passed, end - passed}, [&](const FrameHeader& frame) {
        found.push_back(absl::StrCat(frame.type, " ", frame.flags, " ", frame.stream));
        return true;
      });
    }
    EXPECT_THAT(found, ::testing::ElementsAre("1 4 7", "3 0 2147483647", "0 1 9")) << piece;
  }
}

TEST(FrameScannerTest, WhatIsHeldBackIsShownAgain) {
  FrameScanner scanner(0);
  const std::string first = Frame(FrameHeader::kData, 0, 1, "abc");
  const std::string bytes = first + Frame(FrameHeader::kResetStream, 0, 1, "1234");
  const auto data_only = [](const FrameHeader& f) { return f.type == FrameHeader::kData; };
  EXPECT_EQ(scanner.Scan(bytes, data_only), first.size());
  const std::string rest = bytes.substr(first.size());
  EXPECT_EQ(scanner.Scan(rest, data_only), 0u);
  EXPECT_EQ(scanner.Scan(rest, [](const FrameHeader&) { return true; }), rest.size());
}

TEST(PeerTest, NamesAndAddresses) {
  EXPECT_EQ(PeerName("unix-abstract:127.0.0.1:4711/99.3"), "127.0.0.1:4711");
  EXPECT_EQ(PeerName("unix-abstract:%5B::1%5D:4711/99.3"), "[::1]:4711");
  EXPECT_EQ(PeerName("inproc"), "inproc");
  EXPECT_EQ(PeerAddress("127.0.0.1:4711"), "127.0.0.1");
  EXPECT_EQ(PeerAddress("[::1]:4711"), "[::1]");
  EXPECT_EQ(PeerAddress("inproc"), "");
}

// Plays gRPC: takes what the gate connects, and reads or writes itself.
class GateTest : public ::testing::Test {
 protected:
  void Open(int most_connections) {
    gate_ = *Gate::Open("127.0.0.1:0", most_connections);
    gate_->Start([this](int connection) {
      std::lock_guard lock(mutex_);
      inner_.push_back(connection);
      wake_.notify_all();
    });
    ASSERT_TRUE(absl::SimpleAtoi(gate_->address().substr(gate_->address().rfind(':') + 1), &port_));
  }
  ~GateTest() override {
    for (const int fd : clients_) close(fd);
    gate_ = nullptr;  // nobody adds to inner_ any more
    for (const int fd : inner_) close(fd);
  }

  int Connect() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(port_));
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    clients_.push_back(fd);
    return fd;
  }
  // gRPC's end of the connection made as number `i`. It does not block.
  int Inner(size_t i) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return inner_.size() > i; });
    fcntl(inner_[i], F_SETFL, 0);
    return inner_[i];
  }
  static std::string Read(int fd, size_t bytes) {
    std::string read(bytes, '\0');
    size_t size = 0;
    while (size < bytes) {
      const ssize_t got = recv(fd, read.data() + size, bytes - size, 0);
      if (got <= 0) break;
      size += static_cast<size_t>(got);
    }
    read.resize(size);
    return read;
  }
  static void Write(int fd, const std::string& bytes) {
    ASSERT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<int> inner_, clients_;
  int port_ = 0;
  std::unique_ptr<Gate> gate_;
};

TEST_F(GateTest, PassesBytesBothWaysUntilEitherEnds) {
  Open(10);
  const int client = Connect(), inner = Inner(0);
  Write(client, kPreface);
  EXPECT_EQ(Read(inner, sizeof(kPreface) - 1), kPreface);
  Write(inner, Frame(FrameHeader::kData, 0, 1, "down"));
  EXPECT_EQ(Read(client, 13), Frame(FrameHeader::kData, 0, 1, "down"));
  shutdown(client, SHUT_WR);
  EXPECT_EQ(Read(inner, 1), "");
  Write(inner, Frame(FrameHeader::kData, 0, 1, "last"));
  EXPECT_EQ(Read(client, 13), Frame(FrameHeader::kData, 0, 1, "last"));
  shutdown(inner, SHUT_RDWR);
  EXPECT_EQ(Read(client, 1), "");
}

TEST_F(GateTest, ClosesConnectionsBeyondTheMostAndAcceptsAgain) {
  Open(2);
  const int first = Connect();
  Connect();
  Inner(1);
  EXPECT_EQ(Read(Connect(), 1), "") << "the third is closed";
  close(first);
  clients_.erase(clients_.begin());
  EXPECT_EQ(Read(Inner(0), 1), "");
  close(inner_[0]);
  inner_[0] = -1;
  // The gate hears of both ends a moment later.
  while (true) {
    const int next = Connect();
    timeval wait{.tv_sec = 0, .tv_usec = 50'000};
    setsockopt(next, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    char byte;
    if (recv(next, &byte, 1, 0) < 0 && errno == EAGAIN) break;  // not closed
  }
}

TEST_F(GateTest, AcceptsAgainOnceThereAreDescriptors) {
  Open(10);
  const int client = socket(AF_INET, SOCK_STREAM, 0);  // while there is one
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(client) + 1;
  std::vector<int> taken;
  setrlimit(RLIMIT_NOFILE, &none);
  for (int fd = dup(client); fd >= 0; fd = dup(client)) taken.push_back(fd);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(port_));
  ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  absl::SleepFor(absl::Milliseconds(50));  // so that the gate meets it; the test holds without
  setrlimit(RLIMIT_NOFILE, &before);
  for (const int fd : taken) close(fd);
  clients_.push_back(client);
  Write(client, kPreface);
  EXPECT_EQ(Read(Inner(0), sizeof(kPreface) - 1), kPreface);
}

TEST_F(GateTest, CallsBeyondTheMostWaitForTheEndOfOthers) {
  Open(10);
  const int client = Connect(), inner = Inner(0);
  const std::string begin(kPreface);
  std::string calls;
  for (uint32_t i = 0; i < Gate::kMaxCalls + 2; ++i)
    calls += Frame(FrameHeader::kHeaders, 4, 2 * i + 1);
  Write(client, begin + calls);
  const size_t most = begin.size() + Gate::kMaxCalls * FrameHeader::kBytes;
  EXPECT_EQ(Read(inner, most), (begin + calls).substr(0, most));
  // Only now may the next one come, and then the one after it.
  for (const auto& end : {Frame(FrameHeader::kHeaders, FrameHeader::kEndStream, 3),
                          Frame(FrameHeader::kResetStream, 0, 5, "1234")}) {
    char byte;
    EXPECT_EQ(recv(inner, &byte, 1, MSG_DONTWAIT), -1);
    Write(inner, end);
    EXPECT_EQ(Read(inner, FrameHeader::kBytes).size(), FrameHeader::kBytes);
  }
}

TEST_F(GateTest, ResetsPassAtABoundedRate) {
  Open(10);
  const int client = Connect(), inner = Inner(0);
  constexpr int kMore = 300;
  std::string resets;
  for (uint32_t i = 0; i < Gate::kMaxResets + kMore; ++i)
    resets += Frame(FrameHeader::kResetStream, 0, 2 * i + 1, "1234");
  const absl::Time begin = SteadyNow();
  Write(client, kPreface + resets);
  EXPECT_EQ(Read(inner, sizeof(kPreface) - 1 + resets.size()), kPreface + resets);
  EXPECT_GE(SteadyNow() - begin, absl::Seconds(kMore - 1) / Gate::kResetsPerSecond);
}

}  // namespace
}  // namespace recollect::service
