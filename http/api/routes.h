// Which handler answers what. A route's path has at most one {}, which stands for one segment and
// is decoded ("a%2Fb" is one).
#pragma once

#include <span>

#include "http/api/handlers.h"

namespace recollect::http {

struct Route {
  const char* method;  // GET also takes HEAD, whose answer is sent without its body
  const char* path;    // also its name in logs and metrics
  Handler* handle;
  // Runs on the thread of the network, so it must not wait or compute, and also while draining. All
  // others run on threads that may wait for the disk.
  bool quick = false;
  // The handler gets Request::stream in place of Request::body, and keeps a copy of it.
  bool streamed = false;
};

// All routes. http/api describes each (http/api/openapi.h).
std::span<const Route> Routes();

}  // namespace recollect::http
