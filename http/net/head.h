// Heads of requests and answers, as text and in Boost.Beast's types.
#pragma once

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "http/net/exchange.h"

namespace recollect::http {

inline constexpr uint32_t kMaxHeadBytes = 16 << 10;
inline constexpr size_t kMaxBodyBytes = 4 << 20;  // of a body that is read as a whole

// The refusal of a bad request: its HTTP status, its error and further headers.
struct Refusal {
  int http_status;
  absl::Status status;
  std::string headers = {};  // as in Answer::Send
};

// Whether a read failed because the client has closed or reset the connection or sent nothing for
// too long, so that nobody waits for an answer.
bool IsGone(const boost::system::error_code& failed);

// Returns the refusal for any other error of reading a request.
Refusal RefusalOf(const boost::system::error_code& failed);

// Refuses a head without a Host or with several (RFC 9112, 3.2), or with a coding of the body that
// is not supported.
std::optional<Refusal> CheckHead(const boost::beast::http::request_header<>& head);

// The parts of a request's target, which may have the form for proxies, "http://host/a?b" (RFC
// 9112, 3.2.2): the host, empty if the target has none, and the path with the query.
struct Target {
  absl::string_view authority, origin_form;
};
Target SplitTarget(absl::string_view target);

// Returns the head of an answer. `size`: of its body if it is not streamed. `connection`: the value
// of the header Connection; empty: no such header.
std::string HeadText(const Answer::Head& head, int64_t number, size_t size, bool chunked,
                     absl::string_view connection);

}  // namespace recollect::http
