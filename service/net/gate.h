// Where connections come in: accepts them, bounded in number, and passes their bytes on to gRPC and
// back. gRPC would do it, but accepts nobody any more once it has met "too many open files", knows
// no bound on connections, and frees the calls of reset streams later than it reads the next ones.
//
//   ASSIGN_OR_RETURN(auto gate, Gate::Open("127.0.0.1:0", 256));
//   gate->Start([&](int connection) { … });
//   … gate->address() …
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "access/certificate.h"

namespace recollect::service {

// Thread-safe.
class Gate {
 public:
  // A connection may have as many calls at once, and all together; the next one waits. Each takes
  // gRPC about 13 KiB.
  static constexpr int kMaxCalls = 256, kMaxCallsInAll = 2048;
  // Resets of streams that pass, of all connections together; the next one waits. gRPC keeps
  // the call for a while, and has 0.1 ms of work with it.
  static constexpr int kMaxResets = 256;
  static constexpr int kResetsPerSecond = 1000;

  // Listens on HOST:PORT, on all addresses of a name. FAILED_PRECONDITION: the address cannot be
  // listened on. Beyond `most_connections` a connection is closed as soon as it is made. One peer
  // has no more of those and of calls than access/places.h allows. With a certificate, which must
  // outlive the gate, clients speak TLS with the gate, and gRPC sees what is within.
  static absl::StatusOr<std::unique_ptr<Gate>> Open(
      const std::string& listen, int most_connections,
      const access::Certificate* certificate = nullptr);
  // Closes what is open; what gRPC has said at last still has a second to get out.
  virtual ~Gate() = default;

  // As listened on, with the real port.
  virtual const std::string& address() const = 0;

  // Accepts from now on. `connect` gets gRPC's end of each connection, to own; it is called by a
  // thread of the gate. Once.
  virtual void Start(std::function<void(int)> connect) = 0;
  virtual void StopAccepting() = 0;

  virtual int64_t connections() const = 0;  // open now
};

}  // namespace recollect::service
