// The only file that knows Beast. One thread serves all connections, each a coroutine: an idle one
// costs a descriptor and some kilobytes.
#include "http/server.h"

#include <sys/socket.h>

// Boost 1.74 uses std::exchange without it.
#include <utility>
//
#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <condition_variable>
#include <map>
#include <set>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/places.h"
#include "http/completions.h"
#include "http/errors.h"
#include "nlohmann/json.hpp"

namespace recollect::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using nlohmann::json;

constexpr uint32_t kMaxHeadBytes = 16 << 10;
constexpr uint64_t kMaxBodyBytes = 4 << 20;
constexpr size_t kWriteBytes = 64 << 10;  // each has the whole timeout
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

auto To(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

class HttpServer final : public Server {
 public:
  HttpServer(const ServerOptions& options, engine::Engine& engine)
      : options_(options), engine_(engine) {}
  ~HttpServer() override { Drain(absl::InfinitePast()); }

  absl::Status Listen();
  const std::string& address() const override { return address_; }
  void Refuse() override { refusing_ = true; }
  void Drain(absl::Time deadline) override;

 private:
  // A connection, alive as long as its coroutine. Only the thread of io_ touches it.
  struct Connection {
    Connection(tcp::socket socket, asio::io_context& io) : stream(std::move(socket)), wake(io) {
      error_code error;
      peer = stream.socket().remote_endpoint(error).address().to_string();
    }
    beast::tcp_stream stream;
    beast::flat_buffer buffer;
    asio::steady_timer wake;
    std::string peer;
    std::weak_ptr<Answer> answer;  // to the request that runs
  };
  using ConnectionPtr = std::shared_ptr<Connection>;
  using Parser = beast::http::request_parser<beast::http::string_body>;

  asio::awaitable<void> Accept();
  asio::awaitable<void> Serve(ConnectionPtr connection);
  asio::awaitable<bool> ServeOne(ConnectionPtr connection);
  asio::awaitable<error_code> ReadBody(ConnectionPtr connection, Parser& parser);
  // Sends what the answer gets until it ends; false where the client has gone.
  asio::awaitable<bool> Reply(ConnectionPtr connection, std::shared_ptr<Answer> answer,
                              bool chunked, bool keep);
  asio::awaitable<bool> Write(ConnectionPtr connection, std::string bytes);
  std::shared_ptr<Answer> NewAnswer(const ConnectionPtr& connection);
  void Route(const Request& request, const std::shared_ptr<Answer>& answer);
  absl::Status Ready() const;
  void CountRunning(int change);

  const ServerOptions options_;
  engine::Engine& engine_;
  std::string address_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  std::set<ConnectionPtr> connections_;  // of the thread of io_, like the next
  std::map<std::string, int64_t> by_peer_;
  std::atomic<bool> refusing_{false};
  Mutex mutex_;
  std::condition_variable idle_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // requests between head and the end of the answer
  std::thread thread_;
};

absl::Status HttpServer::Listen() {
  const auto refused = [&](const error_code& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", options_.listen, ": ", error.message()));
  };
  const size_t colon = std::min(options_.listen.rfind(':'), options_.listen.size());
  std::string host = options_.listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  const std::string port = options_.listen.substr(std::min(colon + 1, options_.listen.size()));
  error_code error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(host, port, tcp::resolver::passive, error);
  if (error || found.empty()) return refused(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) return refused(error);
  address_ = absl::StrCat(options_.listen.substr(0, colon), ":", acceptor_.local_endpoint().port());
  asio::co_spawn(io_, Accept(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
  return absl::OkStatus();
}

asio::awaitable<void> HttpServer::Accept() {
  while (acceptor_.is_open()) {
    error_code error;
    tcp::socket socket = co_await acceptor_.async_accept(To(error));
    if (error == asio::error::operation_aborted) co_return;
    if (error) {  // no descriptor, or a connection that was reset at once
      LogWarning("HTTP: accepting: {}", error.message());
      asio::steady_timer pause(io_, absl::ToChronoMilliseconds(kAcceptPause));
      co_await pause.async_wait(To(error));
      continue;
    }
    auto connection = std::make_shared<Connection>(std::move(socket), io_);
    const auto own = by_peer_.find(connection->peer);
    const absl::Status place =
        engine::CheckPlace("connections", std::ssize(connections_), options_.max_connections,
                           connection->peer, own == by_peer_.end() ? 0 : own->second);
    if (!place.ok()) continue;
    connections_.insert(connection);
    ++by_peer_[connection->peer];
    asio::co_spawn(io_, Serve(connection), asio::detached);
  }
}

asio::awaitable<void> HttpServer::Serve(ConnectionPtr connection) {
  try {
    while (co_await ServeOne(connection)) {
    }
  } catch (const std::bad_alloc&) {
    LogError("HTTP: a connection: out of memory");
  }
  error_code error;
  connection->stream.socket().shutdown(tcp::socket::shutdown_both, error);
  connection->stream.close();
  connections_.erase(connection);
  const auto own = by_peer_.find(connection->peer);
  if (--own->second == 0) by_peer_.erase(own);
}

std::shared_ptr<Answer> HttpServer::NewAnswer(const ConnectionPtr& connection) {
  return std::make_shared<Answer>([this, weak = std::weak_ptr(connection)] {
    asio::post(io_, [weak] {
      if (const ConnectionPtr alive = weak.lock()) alive->wake.cancel();
    });
  });
}

// What is wrong with a request, and the status that says so.
struct Refusal {
  int http_status;
  absl::Status status;
};

Refusal RefusalOf(const error_code& failed) {
  using beast::http::error;
  if (failed == error::header_limit || failed == error::buffer_overflow) {
    return {431, absl::InvalidArgumentError(
                     absl::StrCat("the request's head has more than ", kMaxHeadBytes, " bytes"))};
  }
  if (failed == error::body_limit) {
    return {413, absl::InvalidArgumentError(
                     absl::StrCat("the request's body has more than ", kMaxBodyBytes, " bytes"))};
  }
  return {400, absl::InvalidArgumentError(absl::StrCat("not HTTP: ", failed.message()))};
}

asio::awaitable<error_code> HttpServer::ReadBody(ConnectionPtr connection, Parser& parser) {
  error_code error;
  if (parser.get()[beast::http::field::expect] == "100-continue" &&
      !co_await Write(connection, "HTTP/1.1 100 Continue\r\n\r\n"))
    co_return asio::error::broken_pipe;
  connection->stream.expires_after(absl::ToChronoMilliseconds(options_.timeout));
  co_await beast::http::async_read(connection->stream, connection->buffer, parser, To(error));
  co_return error;
}

// Closed, reset or silent: nobody waits for an answer.
bool IsGone(const error_code& failed) {
  using beast::http::error;
  static const error_code of_http = beast::http::make_error_code(error::bad_method);
  return failed && (failed.category() != of_http.category() || failed == error::end_of_stream ||
                    failed == error::partial_message);
}

// Whether the connection can have another request.
asio::awaitable<bool> HttpServer::ServeOne(ConnectionPtr connection) {
  Parser parser;
  parser.header_limit(kMaxHeadBytes);
  parser.body_limit(kMaxBodyBytes);
  error_code error;
  connection->stream.expires_after(absl::ToChronoMilliseconds(options_.timeout));
  co_await beast::http::async_read_header(connection->stream, connection->buffer, parser,
                                          To(error));
  if (IsGone(error)) co_return false;
  CountRunning(1);
  const std::shared_ptr<Answer> answer = NewAnswer(connection);
  connection->answer = answer;
  const absl::Cleanup ended = [&] {
    answer->Detach();
    CountRunning(-1);
  };
  const auto& message = parser.get();
  const bool chunked = message.version() >= 11;
  Request request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  request.path = target.substr(0, target.find('?'));
  request.peer = connection->peer;
  for (const auto& field : message)
    request.headers[absl::AsciiStrToLower(std::string(field.name_string()))] =
        std::string(field.value());
  const absl::Time start = SteadyNow();
  absl::Status status;
  if (!error && options_.authorize != nullptr) status = options_.authorize(request);
  if (!error && status.ok()) error = co_await ReadBody(connection, parser);
  if (IsGone(error)) co_return false;
  // A body that nobody has read is in the way of the next request.
  const bool keep = !error && status.ok() && message.keep_alive();
  if (error) {
    const Refusal refusal = RefusalOf(error);
    answer->Send(refusal.http_status, "application/json", ErrorJson(refusal.status));
  } else if (status.ok()) {
    request.body = std::move(parser.get().body());
    status = OrExhausted("a request", [&] {
      Route(request, answer);
      return absl::OkStatus();
    });
  }
  if (!status.ok()) SendError(*answer, status);
  const bool sent = co_await Reply(connection, answer, chunked, keep);
  LogInfo("http {} {:.1f} ms peer {}{}", request.method,
          absl::ToDoubleMilliseconds(SteadyNow() - start), request.peer,
          sent ? "" : ": the client is gone");
  const bool again = sent && keep && !refusing_;
  co_return again;
}

asio::awaitable<bool> HttpServer::Write(ConnectionPtr connection, std::string bytes) {
  for (size_t begin = 0; begin < bytes.size(); begin += kWriteBytes) {
    error_code error;
    connection->stream.expires_after(absl::ToChronoMilliseconds(options_.timeout));
    co_await asio::async_write(
        connection->stream,
        asio::buffer(bytes.data() + begin, std::min(kWriteBytes, bytes.size() - begin)), To(error));
    if (error) co_return false;
  }
  co_return true;
}

std::string HeadText(const Answer::Head& head, size_t size, bool chunked, bool keep) {
  std::string text = absl::StrCat(
      "HTTP/1.1 ", head.status, " ",
      std::string(beast::http::obsolete_reason(static_cast<beast::http::status>(head.status))),
      "\r\nContent-Type: ", head.content_type, "\r\nCache-Control: no-store\r\n");
  if (!head.streamed) absl::StrAppend(&text, "Content-Length: ", size, "\r\n");
  if (head.streamed && chunked) absl::StrAppend(&text, "Transfer-Encoding: chunked\r\n");
  if (!keep || (head.streamed && !chunked)) absl::StrAppend(&text, "Connection: close\r\n");
  if (head.status == 429 || head.status == 503) absl::StrAppend(&text, "Retry-After: 1\r\n");
  return absl::StrCat(text, "\r\n");
}

asio::awaitable<bool> HttpServer::Reply(ConnectionPtr connection, std::shared_ptr<Answer> answer,
                                        bool chunked, bool keep) {
  // A client that closes its side is gone; bytes are its next request, which waits.
  connection->stream.socket().async_wait(tcp::socket::wait_read, [connection,
                                                                  answer](const error_code& error) {
    char byte;
    if (error) return;
    if (recv(connection->stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 1)
      answer->Gone();
  });
  bool sent = true, streamed = false, ended = false;
  while (sent && !ended) {
    Answer::News news = answer->Take();
    ended = news.ended;
    sent = !news.gone;
    std::string bytes;
    if (news.head.has_value()) {
      streamed = news.head->streamed;
      bytes = HeadText(*news.head, news.bytes.size(), chunked, keep);
    }
    if (streamed && chunked && !news.bytes.empty()) {
      absl::StrAppend(&bytes, absl::Hex(news.bytes.size()), "\r\n", news.bytes, "\r\n");
    } else {
      bytes += news.bytes;
    }
    if (streamed && chunked && ended) bytes += "0\r\n\r\n";
    if (sent && !bytes.empty()) {
      sent = co_await Write(connection, std::move(bytes));
    } else if (sent && !ended) {
      error_code woken;
      connection->wake.expires_at(asio::steady_timer::time_point::max());
      co_await connection->wake.async_wait(To(woken));
    }
  }
  if (!sent) answer->Gone();
  error_code error;
  connection->stream.socket().cancel(error);
  co_return sent && (chunked || !streamed);
}

absl::Status HttpServer::Ready() const {
  if (refusing_) return absl::UnavailableError("the server is draining");
  return engine_.health();
}

void HttpServer::Route(const Request& request, const std::shared_ptr<Answer>& answer) {
  struct Entry {
    const char *method, *path;
    std::function<void()> handle;
  };
  const auto ok = [&] { answer->Send(200, "application/json", R"({"status":"ok"})"); };
  const auto ready = [&] {
    const absl::Status status = Ready();
    status.ok() ? ok() : SendError(*answer, status);
  };
  const auto models = [&] {
    const json model = {{"id", options_.model_name},
                        {"object", "model"},
                        {"created", 0},
                        {"owned_by", "recollect"}};
    answer->Send(200, "application/json", json{{"object", "list"}, {"data", {model}}}.dump());
  };
  const Entry entries[] = {
      {"GET", "/livez", ok},
      {"GET", "/health", ready},
      {"GET", "/readyz", ready},
      {"GET", "/v1/models", models},
      {"POST", "/v1/completions", [&] { Complete(engine_, options_, request, answer); }}};
  bool known = false;
  for (const Entry& entry : entries) {
    if (request.path != entry.path) continue;
    known = true;
    if (request.method != entry.method) continue;
    if (refusing_ && request.method == "POST")
      return SendError(*answer, absl::UnavailableError("the server is draining"));
    return entry.handle();
  }
  const absl::Status refused =
      known ? absl::UnimplementedError(
                  absl::StrCat("method ", request.method, " is not built for '", request.path, "'"))
            : absl::NotFoundError(absl::StrCat("there is no '", request.path, "'"));
  answer->Send(known ? 405 : 404, "application/json", ErrorJson(refused));
}

void HttpServer::CountRunning(int change) {
  MutexLock lock(mutex_);
  running_ += change;
  idle_.notify_all();
}

void HttpServer::Drain(absl::Time deadline) {
  Refuse();
  if (!thread_.joinable()) return;
  asio::post(io_, [this] { acceptor_.close(); });
  {
    MutexLock lock(mutex_);
    while (running_ > 0 && SteadyNow() < deadline)
      idle_.wait_for(lock, std::chrono::milliseconds(50));
  }
  asio::post(io_, [this] {
    for (const ConnectionPtr& connection : connections_) {
      error_code error;  // the coroutine, and with it the thread, ends by itself
      connection->stream.socket().shutdown(tcp::socket::shutdown_both, error);
      if (const auto answer = connection->answer.lock()) answer->Gone();
    }
  });
  thread_.join();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      engine::Engine& engine) {
  auto server = std::make_unique<HttpServer>(options, engine);
  RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace recollect::http
