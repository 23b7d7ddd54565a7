// One end of a connection, encrypted or as it is. Nothing waits.
#ifndef RECOLLECT_SERVICE_WIRE_H_
#define RECOLLECT_SERVICE_WIRE_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "access/certificate.h"

namespace recollect::service {

class Wire {
 public:
  virtual ~Wire() = default;

  // As recv and send of a socket: how many bytes, 0 at the end of what comes, or -1 and errno;
  // EAGAIN: not now. With TLS either may have to wait for what the other one waits for.
  virtual ssize_t Read(char* bytes, size_t size) = 0;
  virtual ssize_t Write(const char* bytes, size_t size) = 0;
  // Whether bytes of ours may flow; false until TLS's handshake has ended.
  virtual bool ready() const { return true; }
  // Nothing is written after this, and the other side hears of it.
  virtual void EndWriting() = 0;
};

// Neither owns the socket, which does not block.
std::unique_ptr<Wire> MakePlainWire(int socket);
// The server's side of TLS, from the handshake on. The thread that uses it must block SIGPIPE. Null
// without memory.
std::unique_ptr<Wire> MakeTlsWire(int socket, const access::Certificate::Context& context);

}  // namespace recollect::service

#endif  // RECOLLECT_SERVICE_WIRE_H_
