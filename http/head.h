// Heads of requests and answers, as text and as Boost.Beast has them.
#ifndef RECOLLECT_HTTP_HEAD_H_
#define RECOLLECT_HTTP_HEAD_H_

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "http/exchange.h"

namespace recollect::http {

inline constexpr uint32_t kMaxHeadBytes = 16 << 10;
inline constexpr size_t kMaxBodyBytes = 4 << 20;  // of a body that is read as a whole

// What is wrong with a request, and the status that says so.
struct Refusal {
  int http_status;
  absl::Status status;
  std::string headers = {};  // as in Answer::Send
};

// Of an error of reading: whether the client has closed, reset or said nothing for too long, so
// that nobody waits for an answer.
bool IsGone(const boost::system::error_code& failed);

// Of any other error of reading a request.
Refusal RefusalOf(const boost::system::error_code& failed);

// Of a head that could be read: no Host or several (RFC 9112, 3.2), and a coding of the body in
// which nothing here reads.
std::optional<Refusal> CheckHead(const boost::beast::http::request_header<>& head);

// A request's target, which may be "http://host/a?b", as a proxy's (RFC 9112, 3.2.2): the host,
// empty where the target has none, and path and query.
struct Target {
  absl::string_view authority, origin_form;
};
Target SplitTarget(absl::string_view target);

// An answer's. `size`: of an answer that is not streamed. `connection`: what the header Connection
// says; empty: none.
std::string HeadText(const Answer::Head& head, int64_t number, size_t size, bool chunked,
                     absl::string_view connection);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_HEAD_H_
