#include "http/query.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "model/text/printable.h"

namespace recollect::http {

absl::Status Take(Query& query, const char* name, std::string& out) {
  const auto found = query.find(name);
  if (found == query.end()) return absl::OkStatus();
  out = std::move(found->second);
  query.erase(found);
  return absl::OkStatus();
}

absl::Status Take(Query& query, const char* name, std::optional<int64_t>& out) {
  const auto found = query.find(name);
  if (found == query.end()) return absl::OkStatus();
  int64_t number = 0;
  if (!absl::SimpleAtoi(found->second, &number)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": '", model::EscapeInvisible(found->second), "', expected an integer"));
  }
  out = number;
  query.erase(found);
  return absl::OkStatus();
}

absl::Status RefuseOthers(const Query& query) {
  if (query.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "unrecognized query parameter: '", model::EscapeInvisible(query.begin()->first), "'"));
}

}  // namespace recollect::http
