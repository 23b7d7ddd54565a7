#include "http/net/cors.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "model/text/printable.h"

namespace recollect::http {
namespace {

constexpr char kOrigin[] = "origin";
constexpr char kAskedMethod[] = "access-control-request-method";
constexpr char kAskedHeaders[] = "access-control-request-headers";

// As a browser writes one: a scheme, and a host with or without a port.
bool IsOrigin(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "https://") && !absl::ConsumePrefix(&text, "http://"))
    return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        absl::string_view("-._:[]").find(c) == absl::string_view::npos)
      return false;
  }
  return !text.empty();
}

}  // namespace

absl::StatusOr<Cors> Cors::Create(const std::vector<std::string>& origins) {
  constexpr size_t kMaxShown = 100;
  Cors cors;
  for (const std::string& origin : origins) {
    const std::string lower = absl::AsciiStrToLower(origin);
    if (origin == "*") {
      cors.all_ = true;
    } else if (IsOrigin(lower)) {
      cors.origins_.insert(lower);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "--http-cors-origins: '", model::Shortened(model::EscapeInvisible(origin), kMaxShown),
          "', expected a scheme and a host without a path, such as https://app.example.org, or *"));
    }
  }
  return cors;
}

bool Cors::Allows(absl::string_view origin) const {
  if (origin.empty()) return false;
  return all_ || origins_.count(absl::AsciiStrToLower(origin)) > 0;
}

std::string Cors::Headers(const Request& request) const {
  if (!all_ && origins_.empty()) return "";
  const absl::string_view origin = HeaderOf(request, kOrigin).value_or("");
  // A cache may give the answer to another page.
  const std::string varies = "Vary: Origin\r\n";
  if (!Allows(origin)) return varies;
  return absl::StrCat(
      varies, "Access-Control-Allow-Origin: ", origin,
      "\r\nAccess-Control-Expose-Headers: X-Request-Id, ETag, Content-Range, Retry-After\r\n");
}

std::optional<std::string> Cors::Preflight(const Request& request) const {
  if (request.method != "OPTIONS" || HeaderOf(request, kAskedMethod).value_or("").empty() ||
      !Allows(HeaderOf(request, kOrigin).value_or("")))
    return std::nullopt;
  std::string headers =
      "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE\r\n"
      "Access-Control-Max-Age: 600\r\n";
  // Clients send headers of their own, which are ignored here.
  const absl::string_view asked = HeaderOf(request, kAskedHeaders).value_or("");
  if (!asked.empty()) absl::StrAppend(&headers, "Access-Control-Allow-Headers: ", asked, "\r\n");
  return headers;
}

}  // namespace recollect::http
