// How a request is read: its head, and its body whole or in pieces.
#include <boost/beast/http/read.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "http/net/connection.h"
#include "http/net/head.h"

namespace recollect::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

constexpr size_t kFirstReadBytes = 4 << 10;  // of a head

}  // namespace

// One before a request is passed over (RFC 9112, 2.2). Waits for the request's first bytes.
asio::awaitable<error_code> Connection::SkipEmptyLine() {
  constexpr absl::string_view kEmptyLine = "\r\n";
  error_code error;
  while (!error) {
    const absl::string_view begun(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    if (absl::StartsWith(begun, kEmptyLine)) {
      buffer_.consume(kEmptyLine.size());
      break;
    }
    if (begun != kEmptyLine.substr(0, begun.size())) break;
    const auto room = buffer_.prepare(kFirstReadBytes);
    const size_t got =
        co_await WithStream([&](auto& stream) { return stream.async_read_some(room, To(error)); });
    buffer_.commit(got);
  }
  co_return error;
}

error_code Connection::ReadHead(Exchange& exchange, const error_code& failed) {
  if (failed) return failed;
  const auto& message = exchange.parser.get();
  Request& request = exchange.request;
  request.method = std::string(message.method_string());
  const auto [authority, target] = SplitTarget({message.target().data(), message.target().size()});
  request.path = std::string(target.substr(0, target.find('?')));
  if (target.size() > request.path.size())
    exchange.query = std::string(target.substr(request.path.size() + 1));
  for (const auto& field : message)
    request.headers[absl::AsciiStrToLower(std::string(field.name_string()))] =
        std::string(field.value());
  if (!authority.empty()) request.headers["host"] = std::string(authority);  // it counts, not Host
  exchange.chunked = message.version() >= 11;
  exchange.expects =
      exchange.chunked && absl::EqualsIgnoreCase(request.headers["expect"], "100-continue");
  return error_code();
}

// At least one byte, but at the end of the body.
asio::awaitable<error_code> Connection::ReadPiece(Exchange& exchange, std::string& piece) {
  Parser& parser = exchange.parser;
  error_code error;
  size_t size = 0;
  piece.resize(Body::kPieceBytes);
  while (!error && size == 0 && !parser.is_done()) {
    auto& target = parser.get().body();
    target.data = piece.data();
    target.size = piece.size();
    target.more = true;
    stream_.expires_after(absl::ToChronoMilliseconds(options_.timeout));
    co_await WithStream([&](auto& stream) {
      return beast::http::async_read_some(stream, buffer_, parser, To(error));
    });
    if (error == beast::http::error::need_buffer) error = error_code();
    size = piece.size() - target.size;
  }
  piece.resize(size);
  co_return error;
}

asio::awaitable<error_code> Connection::ReadBody(Exchange& exchange) {
  std::string& body = exchange.request.body;
  const error_code too_long = beast::http::make_error_code(beast::http::error::body_limit);
  if (exchange.parser.content_length().value_or(0) > kMaxBodyBytes) co_return too_long;
  if (std::exchange(exchange.expects, false) && !co_await Write("HTTP/1.1 100 Continue\r\n\r\n"))
    co_return asio::error::broken_pipe;
  std::string piece;
  while (!exchange.parser.is_done()) {
    if (const error_code error = co_await ReadPiece(exchange, piece)) co_return error;
    if (body.size() + piece.size() > kMaxBodyBytes) co_return too_long;
    body += piece;
  }
  co_return error_code();
}

asio::awaitable<void> Connection::Pump(std::shared_ptr<Exchange> shared) {
  const auto self = shared_from_this();
  Exchange& exchange = *shared;
  const std::shared_ptr<Answer> answer = exchange.answer;
  const std::shared_ptr<Body> body = exchange.request.stream;
  bool ends = false;
  const absl::Cleanup ended = [&] {
    if (!ends) body->Fail(absl::CancelledError("the client is gone"));
    exchange.pumps = false;
    news_.cancel();
  };
  while (!ends) {
    while (!body->has_room()) {
      if (body->failed()) co_return;  // answered
      error_code woken;
      wish_.expires_after(absl::ToChronoMilliseconds(kLookInterval));
      co_await wish_.async_wait(To(woken));
      if (HasClosed()) co_return answer->Gone();
    }
    if (std::exchange(exchange.expects, false)) answer->Proceed();
    std::string piece;
    if (const error_code error = co_await ReadPiece(exchange, piece)) {
      ends = !IsGone(error);
      if (ends) {
        body->End(RefusalOf(error).status);
      } else if (error != asio::error::operation_aborted) {
        answer->Gone();
      }
      co_return;
    }
    ends = piece.empty();
    if (ends) WatchClient(answer);
    body->Give(std::move(piece));
  }
}

}  // namespace recollect::http
