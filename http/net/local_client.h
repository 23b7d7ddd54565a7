// Sees that a client of this machine is gone while what it sent is still on its way.
//
// The end of a connection comes behind its bytes, and a system sends the megabytes that it holds of
// a process that was killed as fast as the server reads them. How a client elsewhere is nobody
// knows until then; of one here the kernel knows.
#pragma once

namespace recollect::http {

// Whether no process has the other end of the TCP connection `fd` any more, and its system has an
// end to send. False where that is not known: a client on another machine, in a container with a
// network of its own, or a service that may not ask (AF_NETLINK). Does not block.
bool LocalClientHasClosed(int fd);

}  // namespace recollect::http
