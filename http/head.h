// Heads of requests and answers, as text and as Boost.Beast has them.
#ifndef RECOLLECT_HTTP_HEAD_H_
#define RECOLLECT_HTTP_HEAD_H_

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/fields.hpp>
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

// Of an error of reading it.
Refusal RefusalOf(const boost::system::error_code& failed);

// Of a head that could be read: several Hosts, and a coding of the body in which nothing here
// reads.
std::optional<Refusal> CheckHead(const boost::beast::http::fields& head);

// Path and query of a request's target: "/a?b" also where it is "http://host/a?b", as a proxy's may
// be (RFC 9112, 3.2.2).
absl::string_view OriginForm(absl::string_view target);

// An answer's. `size`: of an answer that is not streamed.
std::string HeadText(const Answer::Head& head, int64_t number, size_t size, bool chunked,
                     bool keep);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_HEAD_H_
