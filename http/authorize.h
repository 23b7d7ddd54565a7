// Who may send which request, by its head alone: for ServerOptions::authorize.
//
//   options.authorize = [&](const Request& request) { return Authorize(*guard, request); };
#ifndef RECOLLECT_HTTP_AUTHORIZE_H_
#define RECOLLECT_HTTP_AUTHORIZE_H_

#include "absl/status/statusor.h"
#include "access/caller.h"
#include "access/guard.h"
#include "http/exchange.h"

namespace recollect::http {

// Whether it asks for the server's health, as a balancer does, by whatever name.
bool IsHealth(const Request& request);

// Everything needs a key, "Authorization: Bearer KEY", but what tells of the server's health and
// the web page, which have nothing of documents. Methods other than GET, HEAD and POST change
// something and need the right 'full'. An id behind /v1/documents/ is checked. UNAUTHENTICATED,
// PERMISSION_DENIED; INVALID_ARGUMENT where the id is not percent-encoded.
//
// For handlers: ids that come otherwise, such as mounts in a body, go through
// `request.caller.CheckDocuments(mounts)` once they are decoded, before the engine is asked. A list
// begins at `request.caller.ListFrom(after)` and leaves out what `request.caller.MaySee(id)`
// denies.
absl::StatusOr<access::Caller> Authorize(const access::Guard& guard, const Request& request);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_AUTHORIZE_H_
