#include "service/net/gate.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "access/places.h"
#include "base/clock.h"
#include "base/io/log.h"
#include "base/status.h"
#include "service/net/frame_scanner.h"
#include "service/net/sockets.h"
#include "service/net/wire.h"

namespace recollect::service {
namespace {

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kBufferBytes = 32 << 10;
constexpr int kMaxTurns = 64;
constexpr int kRetryMs = 5;
constexpr absl::Duration kWarnEvery = absl::Seconds(10);
constexpr absl::Duration kLastWords = absl::Seconds(1);

// What flows one way. `buffer` from `begin` to `scanned` may go on, from there to `end` waits.
struct Direction {
  Direction(Wire& read, Wire& write, size_t preface) : from(read), to(write), frames(preface) {}

  Wire &from, &to;
  FrameScanner frames;
  size_t begin = 0, scanned = 0, end = 0;
  bool ended = false;
  std::array<char, kBufferBytes> buffer;
};

// What each network address has.
struct Taken {
  int64_t connections = 0, calls = 0;
};
using Peers = std::map<std::string, Taken>;

struct Connection {
  Connection(uint64_t its_id, Peers::iterator its_peer, Descriptor its_client, Descriptor its_inner,
             std::unique_ptr<Wire> its_outer_wire)
      : id(its_id),
        peer(its_peer),
        client(std::move(its_client)),
        inner(std::move(its_inner)),
        outer_wire(std::move(its_outer_wire)),
        inner_wire(MakePlainWire(inner.get())),
        up(*outer_wire, *inner_wire, kPreface.size()),
        down(*inner_wire, *outer_wire, 0) {}

  const uint64_t id;
  const Peers::iterator peer;
  const Descriptor client, inner;  // gRPC has the other end of `inner`
  const std::unique_ptr<Wire> outer_wire, inner_wire;
  Direction up, down;  // to gRPC, to the client
  std::set<uint32_t> calls;
  bool waits = false;
};

void End(Direction& d) {
  d.ended = true;
  d.begin = d.scanned = d.end = 0;
  d.to.EndWriting();
}

// Whether the other end of a socket is closed, also where bytes from it are still to be read.
bool HungUp(int fd) {
  pollfd look{fd, POLLRDHUP, 0};
  return poll(&look, 1, 0) == 1 && (look.revents & (POLLRDHUP | POLLHUP)) != 0;
}

enum class Passed { kAll, kPart, kBroken };

// Passes on what there is, or the part of it that leaves others their turn.
Passed Pass(Direction& d, absl::FunctionRef<bool(const FrameHeader&)> admit) {
  for (int turn = 0; turn < kMaxTurns; ++turn) {
    d.scanned += d.frames.Scan({d.buffer.data() + d.scanned, d.end - d.scanned}, admit);
    if (d.begin < d.scanned) {
      const ssize_t sent = d.to.Write(d.buffer.data() + d.begin, d.scanned - d.begin);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return errno == EAGAIN ? Passed::kAll : Passed::kBroken;
      d.begin += static_cast<size_t>(sent);
      continue;
    }
    std::copy(d.buffer.data() + d.begin, d.buffer.data() + d.end, d.buffer.data());
    d.end -= d.begin;
    d.begin = d.scanned = 0;
    if (d.ended || d.end == kBufferBytes) return Passed::kAll;
    const ssize_t got = d.from.Read(d.buffer.data() + d.end, kBufferBytes - d.end);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN ? Passed::kAll : Passed::kBroken;
    d.end += static_cast<size_t>(got);
    if (got == 0) End(d);
  }
  return Passed::kPart;
}

class SocketGate final : public Gate {
 public:
  SocketGate(int most, const access::Certificate* certificate)
      : most_(most), certificate_(certificate) {}
  ~SocketGate() override;

  absl::Status Listen(const std::string& listen);
  const std::string& address() const override { return listeners_.address; }
  void Start(std::function<void(int)> connect) override;
  void StopAccepting() override;
  int64_t connections() const override { return open_; }

 private:
  static constexpr uint64_t kWake = 0, kListener = 1, kFirstConnection = 2;

  bool Watch(int fd, uint64_t id);
  void Wake();
  void Loop();
  void Accept();
  bool AcceptOne(int listener);
  void Warn(absl::string_view what);
  void Serve(uint64_t id);
  bool Pump(Connection& connection);
  void Wait(Connection& connection);
  bool AdmitReset(Connection& connection);
  bool BeginCall(Connection& connection, uint32_t stream);
  void EndCall(Connection& connection, uint32_t stream);

  const int most_;
  const access::Certificate* const certificate_;  // null: no TLS
  std::function<void(int)> connect_;
  Descriptor epoll_, wake_;
  Listeners listeners_;
  std::atomic<bool> accepting_{true}, stopping_{false};
  std::atomic<int64_t> open_{0};  // size of connections_, for other threads
  std::thread thread_;
  // Of the thread:
  uint64_t next_ = kFirstConnection;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  Peers peers_;  // those that have any
  int64_t calls_ = 0;
  std::deque<uint64_t> waiting_;
  bool accept_again_ = false;
  double resets_ = kMaxResets;  // that may pass now
  absl::Time counted_ = SteadyNow();
  absl::Time warned_ = absl::InfinitePast();
};

absl::Status SocketGate::Listen(const std::string& listen) {
  ASSIGN_OR_RETURN(listeners_, service::Listen(listen));
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool watched = Watch(wake_.get(), kWake);
  for (const Descriptor& listener : listeners_.sockets)
    watched = watched && Watch(listener.get(), kListener);
  if (watched) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(listen, ": ", std::strerror(errno)));
}

// Says when there is something new to do; what was not done then is not said again.
bool SocketGate::Watch(int fd, uint64_t id) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = id;
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void SocketGate::Start(std::function<void(int)> connect) {
  connect_ = std::move(connect);
  thread_ = std::thread([this] {
    sigset_t broken_pipe;  // OpenSSL writes where nobody reads any more
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    Loop();
  });
}

void SocketGate::Wake() {
  constexpr uint64_t kOne = 1;
  (void)!write(wake_.get(), &kOne, sizeof(kOne));
}

void SocketGate::StopAccepting() {
  accepting_ = false;
  Wake();
}

SocketGate::~SocketGate() {
  stopping_ = true;
  StopAccepting();
  if (thread_.joinable()) thread_.join();
}

void SocketGate::Loop() {
  absl::Time last_words = absl::InfiniteFuture();
  while (!stopping_ || (!connections_.empty() && SteadyNow() < last_words)) {
    if (stopping_ && last_words == absl::InfiniteFuture()) last_words = SteadyNow() + kLastWords;
    std::array<epoll_event, 64> events;
    const bool again = accept_again_ || !waiting_.empty() || stopping_;
    const int count =
        epoll_wait(epoll_.get(), events.data(), std::ssize(events), again ? kRetryMs : -1);
    for (int i = 0; i < count; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kWake) {
        uint64_t woken;
        (void)!read(wake_.get(), &woken, sizeof(woken));
      } else if (id == kListener) {
        accept_again_ = true;
      } else {
        Serve(id);
      }
    }
    if (!accepting_) listeners_.sockets.clear();
    if (accept_again_) Accept();
    for (size_t i = waiting_.size(); i > 0; --i) {
      const uint64_t id = waiting_.front();
      waiting_.pop_front();
      if (const auto found = connections_.find(id); found != connections_.end()) {
        found->second->waits = false;
        Serve(id);
      }
    }
    // Whoever comes first takes all resets there are: another one each time.
    if (!waiting_.empty()) std::rotate(waiting_.begin(), waiting_.begin() + 1, waiting_.end());
  }
}

void SocketGate::Accept() {
  accept_again_ = false;
  for (const Descriptor& listener : listeners_.sockets) {
    while (AcceptOne(listener.get())) {
    }
  }
}

// False: nobody is there, or nobody can be let in now.
bool SocketGate::AcceptOne(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  Descriptor client(accept4(listener, reinterpret_cast<sockaddr*>(&address), &size,
                            SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (client.get() < 0) {
    if (errno == EINTR || errno == ECONNABORTED) return true;
    if (errno == EAGAIN) return false;
    Warn(absl::StrCat("no connection is accepted: ", std::strerror(errno)));
    accept_again_ = true;
    return false;
  }
  const std::string name = NameOf(address, size);
  const Peers::iterator peer = peers_.try_emplace(PeerAddress(name)).first;
  const absl::Cleanup forget = [&] {
    if (peer->second.connections == 0) peers_.erase(peer);
  };
  const absl::Status place = access::CheckPlace("connections", std::ssize(connections_), most_,
                                                peer->first, peer->second.connections);
  if (!place.ok()) {
    Warn(place.message());
    return true;
  }
  std::array<int, 2> pair;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) {
    Warn(absl::StrCat("connection of ", name, ": ", std::strerror(errno)));
    return true;
  }
  Descriptor inner(pair[0]), grpc(pair[1]);
  const uint64_t id = next_++;
  SetName(inner.get(), name, id);
  constexpr int kOn = 1;
  setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
  auto wire = certificate_ == nullptr
                  ? MakePlainWire(client.get())
                  : MakeTlsWire(client.get(), certificate_->context(access::Protocol::kHttp2));
  if (wire == nullptr || !Watch(client.get(), id) || !Watch(inner.get(), id)) return true;
  ++peer->second.connections;
  connections_[id] =
      std::make_unique<Connection>(id, peer, std::move(client), std::move(inner), std::move(wire));
  open_ = std::ssize(connections_);
  connect_(grpc.release());
  return true;
}

// Not a line for each: there may be very many.
void SocketGate::Warn(absl::string_view what) {
  if (SteadyNow() - warned_ < kWarnEvery) return;
  warned_ = SteadyNow();
  LogWarning("{}", std::string(what));
}

void SocketGate::Serve(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (Pump(*found->second)) return;
  const Peers::iterator peer = found->second->peer;
  const auto calls = std::ssize(found->second->calls);
  calls_ -= calls;
  peer->second.calls -= calls;
  if (--peer->second.connections == 0) peers_.erase(peer);
  connections_.erase(found);
  open_ = std::ssize(connections_);
}

// False: it is over.
bool SocketGate::Pump(Connection& connection) {
  const auto up = [&](const FrameHeader& frame) {
    if (frame.type == FrameHeader::kResetStream) {
      if (!AdmitReset(connection)) return false;
      EndCall(connection, frame.stream);
    } else if (frame.type == FrameHeader::kHeaders && !connection.calls.contains(frame.stream)) {
      return BeginCall(connection, frame.stream);
    }
    return true;
  };
  const auto down = [&](const FrameHeader& frame) {
    const bool ends =
        frame.type <= FrameHeader::kHeaders && (frame.flags & FrameHeader::kEndStream) != 0;
    if (ends || frame.type == FrameHeader::kResetStream) EndCall(connection, frame.stream);
    return true;
  };
  // Down first: what ends calls lets others pass.
  Passed went_down = Pass(connection.down, down);
  const Passed went_up = Pass(connection.up, up);
  // The end of TLS's handshake, which goes up, lets pass what has waited for it.
  if (went_down == Passed::kAll && connection.down.begin < connection.down.scanned)
    went_down = Pass(connection.down, down);
  if (went_down == Passed::kBroken) return false;
  if (went_up == Passed::kBroken) End(connection.up);  // gRPC's last words may be on their way down
  if (went_down == Passed::kPart || went_up == Passed::kPart) Wait(connection);
  // gRPC has given the client up. What it said first waits for the handshake, and its end behind
  // that.
  if (!connection.outer_wire->ready() && HungUp(connection.inner.get())) return false;
  return !connection.down.ended;
}

bool SocketGate::BeginCall(Connection& connection, uint32_t stream) {
  if (connection.calls.size() >= kMaxCalls) return false;  // until what comes down ends one
  auto& [address, taken] = *connection.peer;
  if (!access::CheckPlace("calls", calls_, kMaxCallsInAll, address, taken.calls).ok()) {
    Wait(connection);
    return false;
  }
  connection.calls.insert(stream);
  ++taken.calls;
  ++calls_;
  return true;
}

void SocketGate::EndCall(Connection& connection, uint32_t stream) {
  const auto ended = static_cast<int64_t>(connection.calls.erase(stream));
  connection.peer->second.calls -= ended;
  calls_ -= ended;
}

void SocketGate::Wait(Connection& connection) {
  if (!std::exchange(connection.waits, true)) waiting_.push_back(connection.id);
}

bool SocketGate::AdmitReset(Connection& connection) {
  const absl::Time now = SteadyNow();
  resets_ = std::min<double>(kMaxResets,
                             resets_ + kResetsPerSecond * absl::ToDoubleSeconds(now - counted_));
  counted_ = now;
  if (resets_ >= 1) {
    --resets_;
    return true;
  }
  Wait(connection);
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gate>> Gate::Open(const std::string& listen, int most_connections,
                                                 const access::Certificate* certificate) {
  auto gate = std::make_unique<SocketGate>(most_connections, certificate);
  RETURN_IF_ERROR(gate->Listen(listen));
  return gate;
}

}  // namespace recollect::service
