// An HTTP connection: reads requests one after another, passes each to its route and sends the
// answer. Only this file, connection*.cc and head.* use Boost.Beast.
#pragma once

// Boost 1.74 uses std::exchange without it.
#include <utility>
//
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "http/net/exchange.h"
#include "http/net/site.h"
#include "http/options.h"

namespace recollect::http {

using boost::system::error_code;

inline auto To(error_code& error) {
  return boost::asio::redirect_error(boost::asio::use_awaitable, error);
}

// Used by the one thread of `io`; it lives as long as its coroutines.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `options` and `site` must outlive it. `count_running` is called with 1 when a request begins
  // and with -1 when it ends.
  Connection(boost::asio::ip::tcp::socket socket, boost::asio::io_context& io,
             const ServerOptions& options, Site& site, std::function<void(int)> count_running);

  const std::string& peer() const { return peer_; }
  // Serves requests until the client or the server ends the connection.
  boost::asio::awaitable<void> Serve();
  // Ends the connection at once and cancels the running request.
  void Close();

 private:
  // How often it checks that the client is still there while it reads nothing.
  static constexpr absl::Duration kLookInterval = absl::Seconds(1);

  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  // A request from its head to the end of its answer.
  struct Exchange {
    Parser parser;
    Request request;
    std::string query = {};  // what follows '?', as sent
    std::shared_ptr<Answer> answer;
    bool expects = false;          // the client waits for "100 Continue" before it sends the body
    bool chunked = true;           // the client supports it: HTTP/1.1
    bool pumps = false;            // Pump runs
    bool keep = false;             // keeps the connection open; set when the answer's head is sent
    int http_status = 0;           // of the answer
    std::string shared_with = {};  // headers of any answer (http/net/cors.h)
    Endpoint endpoint = {};        // without a handler: none, or not looked for
    absl::Time start;
    int64_t number = 0;  // in the log, and in X-Request-Id
  };

  using TlsStream = boost::asio::ssl::stream<boost::beast::tcp_stream&>;
  // Calls `use` with the stream that requests are read from and answers are written to, TLS or
  // plain TCP.
  template <typename Use>
  auto WithStream(const Use& use) {
    return tls_.has_value() ? use(*tls_) : use(stream_);
  }

  boost::asio::awaitable<bool> Greet();  // TLS's handshake; false: it failed
  boost::asio::awaitable<void> TakeLeave();
  boost::asio::awaitable<bool> ServeOne();
  boost::asio::awaitable<error_code> SkipEmptyLine();
  error_code ReadHead(Exchange& exchange, const error_code& failed);
  boost::asio::awaitable<error_code> ReadPiece(Exchange& exchange, std::string& piece);
  boost::asio::awaitable<error_code> ReadBody(Exchange& exchange);
  // Reads pieces of the body, ahead of its handler.
  boost::asio::awaitable<void> Pump(std::shared_ptr<Exchange> exchange);
  // Checks a request and starts its handler, or refuses it. Returns an error of the connection.
  // `failed`: the error of reading the head.
  boost::asio::awaitable<error_code> Handle(std::shared_ptr<Exchange> shared,
                                            const error_code& failed);
  void Run(Exchange& exchange);
  // Sends the parts of the answer until it ends; false: the client has gone.
  boost::asio::awaitable<bool> Reply(Exchange& exchange);
  boost::asio::awaitable<bool> Write(std::string bytes);
  // Reads on for a while after an answer to a request whose body was not read: the client may lose
  // the answer if the connection is closed earlier.
  boost::asio::awaitable<void> Linger();
  void LogEnd(const Exchange& exchange, bool sent) const;
  void WatchClient(const std::shared_ptr<Answer>& answer);
  void LookAtClient(const std::weak_ptr<Answer>& watched);
  bool HungUp();
  bool HasClosed();
  std::function<void()> Waker(boost::asio::steady_timer Connection::*timer);

  boost::asio::io_context& io_;
  const ServerOptions& options_;
  Site& site_;
  const std::function<void(int)> count_running_;
  boost::beast::tcp_stream stream_;
  std::optional<TlsStream> tls_;  // over stream_
  boost::beast::flat_buffer buffer_;
  boost::asio::steady_timer news_, wish_;  // cancelled when the answer has news, or the body room
  boost::asio::steady_timer look_;         // until the next check of the client
  std::string peer_;
  std::weak_ptr<Answer> answer_;  // to the request that runs
  bool lingers_ = false;
  absl::Time asked_ = absl::InfinitePast();  // HasClosed the kernel
};

}  // namespace recollect::http
