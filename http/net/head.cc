#include "http/net/head.h"

#include <algorithm>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/text/printable.h"

namespace recollect::http {
namespace {

// A page of another site can show or run nothing of ours, neither as a script or an image of its
// own nor by a type that a browser guesses.
constexpr char kForBrowsers[] =
    "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n";

}  // namespace

bool IsGone(const boost::system::error_code& failed) {
  using boost::beast::http::error;
  static const boost::system::error_code of_http =
      boost::beast::http::make_error_code(error::bad_method);
  return failed && (failed.category() != of_http.category() || failed == error::end_of_stream ||
                    failed == error::partial_message);
}

Refusal RefusalOf(const boost::system::error_code& failed) {
  using boost::beast::http::error;
  if (failed == error::header_limit || failed == error::buffer_overflow) {
    return {431, absl::InvalidArgumentError(
                     absl::StrCat("the request's head has more than ", kMaxHeadBytes, " bytes"))};
  }
  if (failed == error::body_limit) {
    return {413, absl::InvalidArgumentError(
                     absl::StrCat("the request's body has more than ", kMaxBodyBytes, " bytes"))};
  }
  return {400, absl::InvalidArgumentError(absl::StrCat("not HTTP: ", failed.message()))};
}

std::optional<Refusal> CheckHead(const boost::beast::http::request_header<>& head) {
  using boost::beast::http::field;
  constexpr size_t kMaxShown = 64;
  const auto refused = [](int http_status, absl::string_view name, absl::string_view value,
                          absl::string_view taken) {
    return Refusal{http_status,
                   absl::InvalidArgumentError(absl::StrCat(
                       name, ": '", model::Shortened(model::EscapeInvisible(value), kMaxShown),
                       "', only ", taken, " is taken"))};
  };
  const auto value_of = [&](field name) {
    const auto value = head[name];
    return absl::string_view(value.data(), value.size());
  };
  if (const auto hosts = head.count(field::host); hosts > 1) {
    return Refusal{400, absl::InvalidArgumentError(
                            absl::StrCat("the request has ", hosts, " Host headers, expected 1"))};
  }
  const absl::string_view target(head.target().data(), head.target().size());
  const bool named = !value_of(field::host).empty() || !SplitTarget(target).authority.empty();
  if (!named && (head.version() >= 11 || head.count(field::host) > 0)) {
    return Refusal{
        400, absl::InvalidArgumentError("Host: missing or empty, expected the server's name")};
  }
  const absl::string_view transfer = value_of(field::transfer_encoding);
  if (!transfer.empty() && !absl::EqualsIgnoreCase(transfer, "chunked"))
    return refused(501, "Transfer-Encoding", transfer, "chunked");
  const absl::string_view content = value_of(field::content_encoding);
  if (content.empty() || absl::EqualsIgnoreCase(content, "identity")) return std::nullopt;
  Refusal refusal = refused(415, "Content-Encoding", content, "identity");
  refusal.headers = "Accept-Encoding: identity\r\n";
  return refusal;
}

Target SplitTarget(absl::string_view target) {
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(target, scheme)) continue;
    const size_t path = std::min(target.find_first_of("/?", scheme.size()), target.size());
    return {target.substr(scheme.size(), path - scheme.size()),
            path == target.size() ? "/" : target.substr(path)};
  }
  return {"", target};
}

std::string HeadText(const Answer::Head& head, int64_t number, size_t size, bool chunked,
                     absl::string_view connection) {
  std::string text =
      absl::StrCat("HTTP/1.1 ", head.status, " ",
                   std::string(boost::beast::http::obsolete_reason(
                       static_cast<boost::beast::http::status>(head.status))),
                   "\r\nContent-Type: ", head.content_type, "\r\nCache-Control: no-store\r\n",
                   kForBrowsers, "X-Request-Id: ", number, "\r\n", head.headers);
  // Of 304 it would be the length of what is not sent.
  if (!head.streamed && head.status != 304)
    absl::StrAppend(&text, "Content-Length: ", size, "\r\n");
  if (head.bytes.has_value()) absl::StrAppend(&text, "Content-Length: ", *head.bytes, "\r\n");
  if (chunked) absl::StrAppend(&text, "Transfer-Encoding: chunked\r\n");
  if (!connection.empty()) absl::StrAppend(&text, "Connection: ", connection, "\r\n");
  if (head.status == 401) absl::StrAppend(&text, "WWW-Authenticate: Bearer\r\n");
  return absl::StrCat(text, "\r\n");
}

}  // namespace recollect::http
