// The input is what a client sends on a connection and then ends: heads, bodies, chunks, several
// requests behind each other. The server ends the connection, too; whatever it says is HTTP, and no
// error of its own. Bodies of each path: the other targets http_*.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "base/io/log.h"
#include "http/server.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/support/fake_engine.h"

namespace {

using namespace recollect;  // NOLINT

struct Serving {
  FakeEngine engine;
  std::unique_ptr<http::Server> server;
  sockaddr_in address{};
};

// Makes a server anew from time to time: the fake engine keeps a thread for each generation.
Serving& Server() {
  constexpr int kUses = 256;
  static std::unique_ptr<Serving>& serving = *new std::unique_ptr<Serving>();
  static int uses = 0;
  if (serving != nullptr && ++uses < kUses) return *serving;
  uses = 0;
  SetLogLevel(LogLevel::kOff);
  serving = std::make_unique<Serving>();
  serving->engine.AddDocument("d", "a document of some length");
  auto server = http::Server::Start({.listen = "127.0.0.1:0", .model_name = "m"}, serving->engine);
  RECOLLECT_CHECK(server.ok());
  serving->server = *std::move(server);
  const std::string& address = serving->server->address();
  int port = 0;
  RECOLLECT_CHECK(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  serving->address.sin_family = AF_INET;
  serving->address.sin_port = htons(static_cast<uint16_t>(port));
  serving->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return *serving;
}

void SendAll(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // answered before all of it was read
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string ReadAll(int connection) {
  std::string bytes;
  char part[4096];
  for (ssize_t got; (got = recv(connection, part, sizeof(part), 0)) > 0;)
    bytes.append(part, static_cast<size_t>(got));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Serving& serving = Server();
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  RECOLLECT_CHECK(connection >= 0);
  RECOLLECT_CHECK(connect(connection, reinterpret_cast<const sockaddr*>(&serving.address),
                          sizeof(serving.address)) == 0);
  SendAll(connection, fuzz::AsText(data, size));
  shutdown(connection, SHUT_WR);
  const std::string answer = ReadAll(connection);
  close(connection);
  if (answer.empty()) return 0;
  if (absl::StartsWith(answer, "HTTP/1.1 ") && !absl::StartsWith(answer, "HTTP/1.1 500")) return 0;
  std::fprintf(stderr, "answered: %.1000s\n", answer.c_str());
  std::abort();
}
