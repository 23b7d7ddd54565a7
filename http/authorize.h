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

// Everything needs a key, "Authorization: Bearer KEY", but what tells of the server's health and
// the web page, which have nothing of documents. Methods other than GET, HEAD and POST change
// something and need the right 'full'. An id of a document in the path is checked; what a body or a
// query names the handler checks, and what a list holds. UNAUTHENTICATED, PERMISSION_DENIED.
absl::StatusOr<access::Caller> Authorize(const access::Guard& guard, const Request& request);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_AUTHORIZE_H_
