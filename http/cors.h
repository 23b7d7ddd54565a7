// Which pages of other sites may use the server from a browser: cross-origin resource sharing, CORS
// (the Fetch standard). A browser sends such a page's requests with its origin, and gives the page
// an answer only if the answer names that origin.
#ifndef RECOLLECT_HTTP_CORS_H_
#define RECOLLECT_HTTP_CORS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "http/exchange.h"

namespace recollect::http {

// Thread-safe. By default it allows no page.
class Cors {
 public:
  // `origins` (--http-cors-origins): "https://app.example.org", "http://localhost:3000", or "*" for
  // all. INVALID_ARGUMENT: not an origin, such as one with a path.
  static absl::StatusOr<Cors> Create(const std::vector<std::string>& origins);

  // Whether every page is allowed.
  bool allows_all() const { return all_; }
  bool Allows(absl::string_view origin) const;

  // What each answer to the request says, whole lines; empty where no page is allowed.
  std::string Headers(const Request& request) const;
  // The headers of the answer if the request asks, before another one, whether a page may send that
  // ("preflight"). Such a request has no key.
  std::optional<std::string> Preflight(const Request& request) const;

 private:
  bool all_ = false;
  std::set<std::string> origins_;  // in lower case
};

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_CORS_H_
