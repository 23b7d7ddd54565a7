#include "http/net/connection.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <limits>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/io/log_fields.h"
#include "base/memory.h"
#include "http/net/errors.h"
#include "http/net/head.h"
#include "http/net/path.h"
#include "model/text/printable.h"

namespace recollect::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

constexpr size_t kMaxBufferBytes = 128
                                   << 10;  // what the parser has not taken, also of chunks' heads
constexpr size_t kWriteBytes = 64 << 10;   // each has the whole timeout
constexpr size_t kMaxLoggedBytes = 200;    // of a path

}  // namespace

Connection::Connection(tcp::socket socket, asio::io_context& io, const ServerOptions& options,
                       Site& site, std::function<void(int)> count_running)
    : io_(io),
      options_(options),
      site_(site),
      count_running_(std::move(count_running)),
      stream_(std::move(socket)),
      buffer_(kMaxBufferBytes),
      news_(io),
      wish_(io),
      look_(io) {
  error_code error;
  // Otherwise the second of two small writes waits until the client has acknowledged the first, up
  // to 40 ms: the end of TLS's handshake, a token of a stream.
  stream_.socket().set_option(tcp::no_delay(true), error);
  peer_ = stream_.socket().remote_endpoint(error).address().to_string();
  if (options_.certificate == nullptr) return;
  const auto certificate = options_.certificate->context(access::Protocol::kHttp1);
  SSL_CTX_up_ref(certificate.get());
  asio::ssl::context context(certificate.get());  // gives up one of its owners at the end
  tls_.emplace(stream_, context);
}

asio::awaitable<void> Connection::Serve() {
  const auto self = shared_from_this();
  try {
    if (co_await Greet()) {
      while (co_await ServeOne()) {
      }
      co_await TakeLeave();
    }
  } catch (const std::bad_alloc&) {
    LogError("HTTP: a connection: out of memory");
  }
  error_code error;
  stream_.socket().shutdown(tcp::socket::shutdown_both, error);
  stream_.close();
}

std::function<void()> Connection::Waker(asio::steady_timer Connection::*timer) {
  return [&io = io_, timer, weak = weak_from_this()] {
    asio::post(io, [timer, weak] {
      if (const auto alive = weak.lock()) ((*alive).*timer).cancel();
    });
  };
}

// Whether the connection can have another request.
asio::awaitable<bool> Connection::ServeOne() {
  const auto shared = std::make_shared<Exchange>();
  Exchange& exchange = *shared;
  exchange.parser.header_limit(kMaxHeadBytes);
  // Beast 1.74 takes none for less than any length.
  exchange.parser.body_limit(std::numeric_limits<uint64_t>::max());
  error_code error;
  stream_.expires_after(absl::ToChronoMilliseconds(options_.timeout));
  error = co_await SkipEmptyLine();
  if (!error) {
    co_await WithStream([&](auto& stream) {
      return beast::http::async_read_header(stream, buffer_, exchange.parser, To(error));
    });
  }
  if (IsGone(error)) co_return false;
  count_running_(1);
  exchange.start = SteadyNow();
  exchange.number = site_.traffic.next_request.fetch_add(1);
  site_.traffic.requests.Begin();
  int answered = 0;
  exchange.answer = std::make_shared<Answer>(Waker(&Connection::news_));
  exchange.request.peer = peer_;
  answer_ = exchange.answer;
  const absl::Cleanup ended = [&] {
    exchange.answer->Gone();  // changes nothing where it has ended
    exchange.answer->Detach();
    site_.traffic.requests.End(exchange.endpoint.method, exchange.endpoint.path, answered,
                               SteadyNow() - exchange.start);
    count_running_(-1);
  };
  error = ReadHead(exchange, error);
  error = co_await Handle(shared, error);
  if (IsGone(error)) co_return false;
  const bool sent = co_await Reply(exchange);
  if (sent) answered = exchange.http_status;
  if (exchange.request.stream != nullptr) {
    exchange.request.stream->Fail(
        absl::CancelledError(sent ? "the request has been answered" : "the client is gone"));
  }
  while (exchange.pumps) {  // it uses what is ours
    wish_.cancel();
    error_code woken;
    news_.expires_at(asio::steady_timer::time_point::max());
    co_await news_.async_wait(To(woken));
  }
  LogEnd(exchange, sent);
  lingers_ = sent && !exchange.keep;
  const bool again = sent && exchange.keep && !site_.traffic.refusing;
  co_return again;
}

void Connection::LogEnd(const Exchange& exchange, bool sent) const {
  if (!LogEnabled(LogLevel::kInfo)) return;
  const std::string path =
      model::Shortened(model::EscapeInvisible(exchange.request.path), kMaxLoggedBytes);
  const double ms = absl::ToDoubleMilliseconds(SteadyNow() - exchange.start);
  std::vector<LogField> fields = {{"request", exchange.number},
                                  {"method", exchange.request.method},
                                  {"path", path},
                                  {"status", int64_t{exchange.http_status}},
                                  {"ms", ms},
                                  {"peer", peer_}};
  if (!sent) fields.push_back({"error", "the client is gone"});
  LogEvent(
      LogLevel::kInfo, "http", fields,
      fmt::format("http {} {} {} {} {:.1f} ms peer {}{}", exchange.number, exchange.request.method,
                  path, exchange.http_status, ms, peer_, sent ? "" : ": the client is gone"));
}

asio::awaitable<error_code> Connection::Handle(std::shared_ptr<Exchange> shared,
                                               const error_code& failed) {
  Exchange& exchange = *shared;
  Request& request = exchange.request;
  const auto refuse = [&](int http_status, const absl::Status& status, std::string headers = "") {
    SendError(*exchange.answer, status, std::move(headers), http_status);
    return error_code();
  };
  if (failed) {
    const Refusal refusal = RefusalOf(failed);
    co_return refuse(refusal.http_status, refusal.status);
  }
  if (std::optional<Refusal> refusal = CheckHead(exchange.parser.get()))
    co_return refuse(refusal->http_status, refusal->status, refusal->headers);
  const Cors& cors = options_.cors;
  exchange.shared_with = cors.Headers(request);
  if (std::optional<std::string> headers = cors.Preflight(request)) {
    exchange.answer->Send(200, "text/plain", "", *std::move(headers));
    co_return error_code();
  }
  absl::StatusOr<access::Caller> caller = access::Caller::Anybody();
  if (options_.authorize != nullptr) caller = options_.authorize(request);
  if (!caller.ok()) co_return refuse(HttpStatus(caller.status().code()), caller.status());
  request.caller = *std::move(caller);
  const Endpoint& endpoint = exchange.endpoint = site_.Find(request);
  if (endpoint.handle == nullptr) {
    co_return refuse(endpoint.http_status, endpoint.refused,
                     endpoint.allow.empty() ? "" : absl::StrCat("Allow: ", endpoint.allow, "\r\n"));
  }
  absl::StatusOr<std::map<std::string, std::string>> query = DecodeQuery(exchange.query);
  if (!query.ok()) co_return refuse(400, query.status());
  request.query = *std::move(query);
  if (site_.traffic.refusing && !endpoint.quick)
    co_return refuse(503, absl::UnavailableError("the server is draining"));
  if (endpoint.streamed) {
    request.stream = std::make_shared<Body>(Waker(&Connection::wish_), site_.traffic.bodies_held);
    exchange.pumps = true;
    asio::co_spawn(io_, Pump(shared), asio::detached);
  } else if (const error_code error = co_await ReadBody(exchange)) {
    if (IsGone(error)) co_return error;
    const Refusal refusal = RefusalOf(error);
    co_return refuse(refusal.http_status, refusal.status);
  }
  Run(exchange);
  co_return error_code();
}

void Connection::Run(Exchange& exchange) {
  const std::shared_ptr<Answer> answer = exchange.answer;
  const absl::Status started = OrExhausted("a request", [&] {
    if (exchange.endpoint.quick) return exchange.endpoint.handle(exchange.request, answer);
    auto request = std::make_shared<Request>(exchange.request);
    return site_.Start([handle = exchange.endpoint.handle, request, answer] {
      const absl::Status handled =
          OrExhausted("a request", [&] { return handle(*request, answer); });
      if (!handled.ok()) SendError(*answer, handled);
    });
  });
  if (!started.ok()) SendError(*answer, started);
}

asio::awaitable<bool> Connection::Write(std::string bytes) {
  for (size_t begin = 0; begin < bytes.size(); begin += kWriteBytes) {
    error_code error;
    stream_.expires_after(absl::ToChronoMilliseconds(options_.timeout));
    const auto part =
        asio::buffer(bytes.data() + begin, std::min(kWriteBytes, bytes.size() - begin));
    co_await WithStream([&](auto& stream) { return asio::async_write(stream, part, To(error)); });
    if (error) co_return false;
  }
  co_return true;
}

asio::awaitable<bool> Connection::Reply(Exchange& exchange) {
  Answer& answer = *exchange.answer;
  if (exchange.request.stream == nullptr) WatchClient(exchange.answer);
  const bool head_only = exchange.request.method == "HEAD";
  bool sent = true, begun = false, chunked = false, ended = false;
  while (sent && !ended) {
    Answer::News news = answer.Take();
    ended = news.ended;
    sent = !news.gone;
    std::string bytes;
    if (news.proceed && !begun) bytes = "HTTP/1.1 100 Continue\r\n\r\n";
    if (news.head.has_value()) {
      begun = true;
      news.head->headers += exchange.shared_with;
      const bool unbounded = news.head->streamed && !news.head->bytes.has_value();
      chunked = unbounded && exchange.chunked;
      exchange.http_status = news.head->status;
      // A body that nobody has read is in the way of the next request.
      exchange.keep = exchange.parser.is_done() && exchange.parser.get().keep_alive() &&
                      (chunked || !unbounded);
      // HTTP/1.0 closes unless the answer says that it does not.
      const char* kept = exchange.chunked ? "" : "keep-alive";
      bytes += HeadText(*news.head, exchange.number, news.bytes.size(), chunked,
                        exchange.keep ? kept : "close");
      if (head_only) {
        sent = co_await Write(std::move(bytes));
        break;
      }
    }
    if (chunked && !news.bytes.empty()) {
      absl::StrAppend(&bytes, absl::Hex(news.bytes.size()), "\r\n", news.bytes, "\r\n");
    } else {
      bytes += news.bytes;
    }
    if (chunked && ended) bytes += "0\r\n\r\n";
    if (sent && !bytes.empty()) {
      sent = co_await Write(std::move(bytes));
    } else if (sent && !ended) {
      error_code woken;
      const bool endless = news.pause == absl::InfiniteDuration();
      news_.expires_at(endless ? asio::steady_timer::time_point::max()
                               : std::chrono::steady_clock::now() +
                                     absl::ToChronoNanoseconds(news.pause));
      co_await news_.async_wait(To(woken));
      if (!woken) answer.Idle();  // nobody cancelled the wait
    }
  }
  if (!sent || head_only) answer.Gone();  // what would still be written goes nowhere
  error_code error;
  stream_.socket().cancel(error);
  look_.cancel();
  co_return sent;
}

}  // namespace recollect::http
