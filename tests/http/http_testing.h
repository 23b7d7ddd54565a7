// An HTTP server over the fake engine, and a client made of one plain socket.
#pragma once

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/io/log.h"
#include "http/server.h"
#include "model/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/support/fake_engine.h"

namespace recollect {

class Socket {
 public:
  explicit Socket(const std::string& address, int receive_bytes = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_bytes > 0)
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  void Send(const std::string& bytes) const {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  // Sends until so many bytes are sent, or none can be for 0.3 s. Returns how many were.
  size_t SendWhileTaken(size_t at_most) const {
    const std::string some(1 << 16, 'x');
    size_t sent = 0;
    for (pollfd look{fd_, POLLOUT, 0}; sent < at_most && poll(&look, 1, 300) == 1;) {
      const ssize_t n = send(fd_, some.data(), some.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<size_t>(n);
    }
    return sent;
  }
  // Until `end` has come, or the server has closed.
  std::string ReadUntil(const std::string& end) const {
    std::string bytes;
    char part[4096];
    while (end.empty() || bytes.find(end) == std::string::npos) {
      const ssize_t n = recv(fd_, part, sizeof(part), 0);
      if (n <= 0) break;
      bytes.append(part, static_cast<size_t>(n));
    }
    return bytes;
  }
  std::string ReadAll() const { return ReadUntil(""); }

  int fd() const { return fd_; }

 private:
  int fd_;
};

inline std::string Post(const std::string& path, const std::string& body,
                        const std::string& headers = "Connection: close\r\n") {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\n", headers,
                      "Content-Length: ", body.size(), "\r\n\r\n", body);
}
inline std::string Get(const std::string& path) {
  return absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

class HttpTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({.listen = "127.0.0.1:0", .model_name = "fake"}); }
  void Start(const http::ServerOptions& options) {
    SetLogLevel(LogLevel::kOff);
    server_.reset();
    auto server = http::Server::Start(options, engine_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Ask(const std::string& request) const {
    const Socket socket(server_->address());
    socket.Send(request);
    return socket.ReadAll();
  }
  // Keeps the thread that answers for the engine busy until the function that is returned is
  // called.
  std::function<void()> KeepEngineBusy() {
    auto busy = std::make_shared<std::promise<void>>(),
         go_on = std::make_shared<std::promise<void>>();
    engine_.Score({}, [busy, go_on](const auto&) {
      busy->set_value();
      go_on->get_future().wait();
    });
    busy->get_future().wait();
    return [go_on] { go_on->set_value(); };
  }
  std::string Complete(nlohmann::json fields) const {
    if (!fields.contains("model")) fields["model"] = "fake";
    if (!fields.contains("prompt")) fields["prompt"] = "Say hello";
    return Ask(Post("/v1/completions", fields.dump()));
  }
  std::string Chat(nlohmann::json fields) const {
    if (!fields.contains("model")) fields["model"] = "fake";
    if (!fields.contains("messages"))
      fields["messages"].push_back({{"role", "user"}, {"content", "Say hello"}});
    return Ask(Post("/v1/chat/completions", fields.dump()));
  }
  // The objects of a stream of server-sent events.
  static std::vector<nlohmann::json> Events(const std::string& answer) {
    std::vector<nlohmann::json> events;
    for (size_t at = 0; (at = answer.find("data: {", at)) != std::string::npos; ++at) {
      const size_t begin = at + 6;
      events.push_back(
          nlohmann::json::parse(answer.substr(begin, answer.find('\n', begin) - begin)));
    }
    return events;
  }
  // Serves with a tokenizer, too, which it returns.
  const model::Tokenizer& StartWithTokenizer() {
    auto tokenizer = model::Tokenizer::Load(std::string(RECOLLECT_SOURCE_DIR) +
                                            "/tests/support/tiny_tokenizer.model");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    Start({.listen = "127.0.0.1:0", .model_name = "fake", .tokenizer = tokenizer_.get()});
    return *tokenizer_;
  }
  // An error in OpenAI's form, with that status and a message that has `message` in it.
  void ExpectRefused(const std::string& path, const nlohmann::json& fields, int status,
                     const std::string& message) const {
    const std::string answer = Ask(Post(path, fields.dump()));
    EXPECT_THAT(answer, ::testing::StartsWith(absl::StrCat("HTTP/1.1 ", status, " "))) << fields;
    const nlohmann::json error = Body(answer)["error"];
    EXPECT_THAT(error.value("message", ""), ::testing::HasSubstr(message)) << fields;
    EXPECT_TRUE(error.contains("type") && error.contains("param") && error.contains("code"));
  }
  static nlohmann::json Body(const std::string& answer) {
    return nlohmann::json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
  }

  // The content of an answer in chunks; "cut" behind it unless it has come to its end.
  static std::string Chunks(const std::string& answer) {
    std::string content;
    for (size_t at = answer.find("\r\n\r\n") + 4;;) {
      const size_t size = std::strtoul(answer.c_str() + at, nullptr, 16);
      const size_t begin = answer.find("\r\n", at);
      if (begin == std::string::npos) return content + "cut";
      if (size == 0) return content;
      content += answer.substr(begin + 2, size);
      at = begin + 2 + size + 2;
    }
  }

  FakeEngine engine_;                            // outlives the server
  std::unique_ptr<model::Tokenizer> tokenizer_;  // so does it
  std::unique_ptr<http::Server> server_;
};

}  // namespace recollect
