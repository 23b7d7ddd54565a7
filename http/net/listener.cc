#include "http/net/listener.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "access/places.h"
#include "base/clock.h"
#include "base/io/host_port.h"
#include "base/io/log.h"
#include "base/status.h"

namespace recollect::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const ServerOptions& options, Site& site) {
  auto listener = std::unique_ptr<Listener>(new Listener(options, site));
  RETURN_IF_ERROR(listener->Listen());
  return listener;
}

Listener::~Listener() { Drain(absl::InfinitePast()); }

absl::Status Listener::Listen() {
  const auto refused = [&](const error_code& error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", options_.listen, ": ", error.message()));
  };
  const HostPort asked = SplitHostPort(options_.listen);
  error_code error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(asked.host, asked.port, tcp::resolver::passive, error);
  if (error || found.empty()) return refused(error);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) return refused(error);
  address_ = WithPort(options_.listen, acceptor_.local_endpoint().port());
  asio::co_spawn(io_, Accept(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
  return absl::OkStatus();
}

asio::awaitable<void> Listener::Accept() {
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
    auto connection = std::make_shared<Connection>(std::move(socket), io_, options_, site_,
                                                   [this](int change) { CountRunning(change); });
    const auto own = by_peer_.find(connection->peer());
    const absl::Status place =
        access::CheckPlace("connections", std::ssize(connections_), options_.max_connections,
                           connection->peer(), own == by_peer_.end() ? 0 : own->second);
    if (!place.ok()) continue;
    connections_.insert(connection);
    site_.traffic.connections = std::ssize(connections_);
    ++by_peer_[connection->peer()];
    asio::co_spawn(io_, Serve(connection), asio::detached);
  }
}

asio::awaitable<void> Listener::Serve(std::shared_ptr<Connection> connection) {
  co_await connection->Serve();
  connections_.erase(connection);
  site_.traffic.connections = std::ssize(connections_);
  const auto own = by_peer_.find(connection->peer());
  if (--own->second == 0) by_peer_.erase(own);
}

void Listener::CountRunning(int change) {
  MutexLock lock(mutex_);
  running_ += change;
  idle_.notify_all();
}

void Listener::Drain(absl::Time deadline) {
  site_.traffic.refusing = true;
  if (!thread_.joinable()) return;
  asio::post(io_, [this] { acceptor_.close(); });
  {
    MutexLock lock(mutex_);
    while (running_ > 0 && SteadyNow() < deadline)
      idle_.wait_for(lock, std::chrono::milliseconds(50));
  }
  asio::post(io_, [this] {
    for (const std::shared_ptr<Connection>& connection : connections_) connection->Close();
  });
  thread_.join();  // once the last coroutine has ended
}

}  // namespace recollect::http
