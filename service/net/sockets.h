// Sockets for the gate: descriptors that close themselves, listening, names of peers.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recollect::service {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }  // -1: none
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct Listeners {
  std::vector<Descriptor> sockets;  // non-blocking
  std::string address;              // as asked for, with the real port
};

// Listens on HOST:PORT, on all addresses of a host name. FAILED_PRECONDITION names HOST:PORT.
absl::StatusOr<Listeners> Listen(const std::string& address);

// Returns the address and port of a peer: "127.0.0.1:4711", "[::1]:4711".
std::string NameOf(const sockaddr_storage& peer, socklen_t size);
// Names one end of a socket pair after `peer`, so that gRPC, at the other end, sees this name as
// its peer. No program can connect to the name. `number` is unique in the process.
void SetName(int fd, const std::string& peer, uint64_t number);
// Returns the `peer` of SetName from gRPC's notation of the name; for other peers, gRPC's notation.
std::string PeerName(absl::string_view grpc_peer);
// Returns a peer's address without the port; empty if the peer is not a network address.
std::string PeerAddress(absl::string_view peer_name);

}  // namespace recollect::service
