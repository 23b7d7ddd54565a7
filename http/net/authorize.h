// Authorizes requests by their heads alone, for ServerOptions::authorize.
//
//   options.authorize = [&](const Request& request) { return Authorize(*guard, request); };
#pragma once

#include "absl/status/statusor.h"
#include "access/caller.h"
#include "access/guard.h"
#include "http/net/exchange.h"

namespace recollect::http {

// Whether the request asks for the server's health, as a load balancer does, by any of its paths.
bool IsHealth(const Request& request);

// Checks the key, "Authorization: Bearer KEY", that every request needs, except for the server's
// health, the web page and the description of the API, which reveal nothing of documents; what
// loads the description learns from it how keys are sent. Methods other than GET, HEAD and POST
// change something and need the right 'full'. The id in a path /v1/documents/ID must be allowed,
// too. UNAUTHENTICATED, PERMISSION_DENIED; INVALID_ARGUMENT if the id's percent-encoding is wrong.
//
// Handlers check all other ids, such as mounts in a body, with
// `request.caller.CheckDocuments(mounts)` once they are decoded, before the engine is called. A
// list begins at `request.caller.ListFrom(after)` and leaves out ids for which
// `request.caller.MaySee(id)` is false.
absl::StatusOr<access::Caller> Authorize(const access::Guard& guard, const Request& request);

}  // namespace recollect::http
