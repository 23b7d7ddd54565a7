// How a connection begins and ends, and how it is seen that the client has ended it.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "base/io/log.h"
#include "http/net/connection.h"
#include "http/net/local_client.h"

namespace recollect::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// What is still read of a body after the answer.
constexpr size_t kLingerBytes = 16 << 20;
constexpr absl::Duration kLinger = absl::Seconds(5);

}  // namespace

asio::awaitable<bool> Connection::Greet() {
  if (!tls_.has_value()) co_return true;
  error_code error;
  stream_.expires_after(absl::ToChronoMilliseconds(options_.timeout));
  co_await tls_->async_handshake(asio::ssl::stream_base::server, To(error));
  if (error) LogInfo("http peer {}: no TLS: {}", peer_, error.message());
  const bool greeted = !error;
  co_return greeted;
}

asio::awaitable<void> Connection::TakeLeave() {
  if (tls_.has_value()) {  // says that nothing is missing
    error_code error;
    stream_.expires_after(absl::ToChronoMilliseconds(std::min(kLinger, options_.timeout)));
    co_await tls_->async_shutdown(To(error));
  }
  if (lingers_) co_await Linger();
}

void Connection::Close() {
  error_code error;  // the coroutine ends by itself
  stream_.socket().shutdown(tcp::socket::shutdown_both, error);
  if (const auto answer = answer_.lock()) answer->Gone();
}

// A client that closes its side is gone; bytes are its next request, which waits. The end may come
// behind them.
void Connection::WatchClient(const std::shared_ptr<Answer>& answer) {
  stream_.socket().async_wait(
      tcp::socket::wait_read, [self = shared_from_this(), answer](const error_code& error) {
        char byte;
        if (error) return;
        if (!self->tls_.has_value() &&
            recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 1)
          return answer->Gone();
        self->LookAtClient(answer);
      });
}

// Sees an end behind bytes that wait, and within TLS, where nobody knows what came.
void Connection::LookAtClient(const std::weak_ptr<Answer>& watched) {
  const auto answer = watched.lock();
  if (answer == nullptr || answer != answer_.lock()) return;  // another request runs, or none
  if (HungUp()) return answer->Gone();
  look_.expires_after(absl::ToChronoMilliseconds(kLookInterval));
  look_.async_wait([self = shared_from_this(), watched](const error_code& error) {
    if (!error) self->LookAtClient(watched);
  });
}

// Also of a client whose end is behind bytes that nobody reads yet.
bool Connection::HasClosed() {
  if (HungUp()) return true;
  const absl::Time now = SteadyNow();
  if (now < asked_ + kLookInterval) return false;
  asked_ = now;
  return LocalClientHasClosed(stream_.socket().native_handle());
}

bool Connection::HungUp() {
  pollfd look{stream_.socket().native_handle(), POLLRDHUP, 0};
  return look.fd < 0 ||
         (poll(&look, 1, 0) == 1 && (look.revents & (POLLRDHUP | POLLERR | POLLHUP)));
}

asio::awaitable<void> Connection::Linger() {
  error_code error;
  stream_.socket().shutdown(tcp::socket::shutdown_send, error);
  const absl::Time end = SteadyNow() + std::min(kLinger, options_.timeout);
  std::vector<char> bytes(Body::kPieceBytes);
  for (size_t left = kLingerBytes; left > 0 && !error;) {
    const absl::Duration still = end - SteadyNow();
    if (still <= absl::ZeroDuration()) break;
    stream_.expires_after(absl::ToChronoMilliseconds(still) + std::chrono::milliseconds(1));
    const size_t size = co_await stream_.async_read_some(asio::buffer(bytes), To(error));
    left -= std::min(left, size);
  }
}

}  // namespace recollect::http
