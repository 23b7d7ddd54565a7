// An end of a connection, with TLS or without. No call blocks.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "access/certificate.h"

namespace recollect::service {

class Wire {
 public:
  virtual ~Wire() = default;

  // Work like recv and send of a socket: return the number of bytes, 0 at the end of the input, or
  // -1 and errno; EAGAIN: not now. With TLS, Read may have to wait until the socket is writable,
  // and Write until it is readable.
  virtual ssize_t Read(char* bytes, size_t size) = 0;
  virtual ssize_t Write(const char* bytes, size_t size) = 0;
  // Whether application data may flow; false until the TLS handshake has ended.
  virtual bool ready() const { return true; }
  // Tells the other side that nothing more is written.
  virtual void EndWriting() = 0;
};

// Returns a wire without TLS. Like MakeTlsWire, it does not own the socket, which must be
// non-blocking.
std::unique_ptr<Wire> MakePlainWire(int socket);
// Returns the server's side of TLS, from the handshake on. The thread that uses it must block
// SIGPIPE. Null: out of memory.
std::unique_ptr<Wire> MakeTlsWire(int socket, const access::Certificate::Context& context);

}  // namespace recollect::service
