// Cross-origin resource sharing, CORS (the Fetch standard): which pages of other sites may use the
// server from a browser. A browser sends a page's origin with its requests, and gives the page an
// answer only if the answer names that origin.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "http/net/exchange.h"

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

  // Returns the headers of any answer to the request, as whole lines; empty if no pages are allowed
  // at all.
  std::string Headers(const Request& request) const;
  // Returns the further headers of the answer if the request is a preflight, in which a browser
  // asks whether an allowed page may send another request. A preflight has no key.
  std::optional<std::string> Preflight(const Request& request) const;

 private:
  bool all_ = false;
  std::set<std::string> origins_;  // in lower case
};

}  // namespace recollect::http
