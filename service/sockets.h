// What the gate needs of sockets: descriptors that close themselves, listening, names of peers.
#ifndef RECOLLECT_SERVICE_SOCKETS_H_
#define RECOLLECT_SERVICE_SOCKETS_H_

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
  std::vector<Descriptor> sockets;  // that do not block
  std::string address;              // as asked for, with the real port
};

// On HOST:PORT, on all addresses of a name. FAILED_PRECONDITION naming it.
absl::StatusOr<Listeners> Listen(const std::string& address);

// "127.0.0.1:4711", "[::1]:4711".
std::string NameOf(const sockaddr_storage& peer, socklen_t size);
// Names one end of a pair of sockets, for who asks the other end for its peer, as gRPC does. No
// program can connect to the name. `number` is no other's of the process.
void SetName(int fd, const std::string& peer, uint64_t number);
// That name, from how gRPC writes it. Of peers that have none by SetName what gRPC says.
std::string PeerName(absl::string_view grpc_peer);
// Without the port; empty where a peer is none of the network.
std::string PeerAddress(absl::string_view peer_name);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_SOCKETS_H_
