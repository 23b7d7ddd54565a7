#include "http/net/errors.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "access/account.h"
#include "base/io/paths.h"
#include "http/net/json.h"
#include "model/text/printable.h"
#include "nlohmann/json.hpp"

namespace recollect::http {
namespace {

using nlohmann::json;
constexpr size_t kMaxErrorBytes = 1024;

// Names a field at the message's beginning as requests over HTTP have it. The engine's messages
// have it as the gRPC API does: "sampling.top_p", which is top_p here, and the parts of a prompt,
// "prompt.text", which here is prompt itself, whatever it holds.
std::string NamedAsHere(absl::string_view message) {
  absl::ConsumePrefix(&message, "sampling.");
  if (absl::StartsWith(message, "prompt.messages")) absl::ConsumePrefix(&message, "prompt.");
  for (const char* field : {"prompt", "query", "input"}) {
    for (const char* part : {".text", ".tokens"}) {
      absl::string_view rest = message;
      if (absl::ConsumePrefix(&rest, absl::StrCat(field, part, ":")))
        return absl::StrCat(field, ":", rest);
    }
  }
  return std::string(message);
}

json Param(absl::string_view message) {
  const absl::string_view name =
      message.substr(0, message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
  const absl::string_view rest = message.substr(name.size());
  const bool named =
      absl::StartsWith(rest, ":") || absl::StartsWith(rest, ".") || absl::StartsWith(rest, "[");
  return !name.empty() && named ? json(std::string(name)) : json(nullptr);
}

const char* Type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

int HttpStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnimplemented:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kOutOfRange:
      return 416;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

std::string ErrorJson(const absl::Status& status, int http_status) {
  // It quotes what callers sent: escaped, so that nothing in it acts on a terminal or hides.
  const std::string message =
      NamedAsHere(model::EscapeInvisible(WithoutPaths(status.message().substr(0, kMaxErrorBytes))));
  const json error = {{"message", message},
                      {"type", Type(http_status == 0 ? HttpStatus(status.code()) : http_status)},
                      {"param", Param(message)},
                      {"code", absl::AsciiStrToLower(absl::StatusCodeToString(status.code()))}};
  return Dump({{"error", error}});
}

void SendError(Answer& answer, const absl::Status& status, std::string headers, int http_status) {
  const int sent = http_status == 0 ? HttpStatus(status.code()) : http_status;
  if (sent == 429 || sent == 503) {
    const absl::Duration wait = access::RetryAfter(status).value_or(absl::ZeroDuration());
    absl::StrAppend(&headers, "Retry-After: ", absl::ToInt64Seconds(wait) + 1, "\r\n");
  }
  answer.Send(sent, "application/json", ErrorJson(status, sent), std::move(headers));
}

}  // namespace recollect::http
