// Accepts HTTP connections and ends them.
#ifndef RECOLLECT_HTTP_NET_LISTENER_H_
#define RECOLLECT_HTTP_NET_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "http/net/site.h"
#include "http/options.h"

namespace recollect::http {

// Thread-safe.
class Listener {
 public:
  // `options` and `site` must outlive it. FAILED_PRECONDITION: the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const ServerOptions& options, Site& site);
  virtual ~Listener() = default;  // like Drain with a deadline in the past

  virtual const std::string& address() const = 0;  // with the real port
  // Refuses requests, stops listening, waits until running requests are answered or `deadline`
  // (SteadyNow() time) has passed, and closes. Blocks. May be repeated.
  virtual void Drain(absl::Time deadline) = 0;
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_NET_LISTENER_H_
