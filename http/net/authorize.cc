#include "http/net/authorize.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "http/net/path.h"

namespace recollect::http {
namespace {

using access::Caller;
using access::Right;

bool Gets(const Request& request) { return request.method == "GET" || request.method == "HEAD"; }

bool IsOpen(const Request& request) {
  return IsHealth(request) ||
         (Gets(request) && (request.path == "/" || request.path == "/openapi.json" ||
                            absl::StartsWith(request.path, "/page/")));
}

}  // namespace

bool IsHealth(const Request& request) {
  return Gets(request) &&
         (request.path == "/livez" || request.path == "/readyz" || request.path == "/health");
}

absl::StatusOr<Caller> Authorize(const access::Guard& guard, const Request& request) {
  if (IsOpen(request)) return Caller();
  const absl::string_view sent = HeaderOf(request, "authorization").value_or("");
  ASSIGN_OR_RETURN(Caller caller, guard.Admit(sent));
  // A POST asks something of the model, except below a document, where it changes that.
  const bool below = absl::StartsWith(request.path, "/v1/documents/");
  const bool reads = Gets(request) || (request.method == "POST" && !below);
  RETURN_IF_ERROR(caller.CheckRight(reads ? Right::kRead : Right::kFull, request.method));
  absl::string_view path = request.path;
  if (absl::ConsumePrefix(&path, "/v1/documents/")) {
    ASSIGN_OR_RETURN(const std::string id, DecodePercent(path.substr(0, path.find('/'))));
    RETURN_IF_ERROR(caller.CheckDocument(id));
  }
  return caller;
}

}  // namespace recollect::http
