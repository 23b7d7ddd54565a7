#include "http/net/entity_tag.h"

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

namespace recollect::http {

bool NamesTag(absl::string_view header, absl::string_view tag, TagComparison comparison) {
  absl::string_view rest = absl::StripAsciiWhitespace(header);
  if (rest == "*") return true;
  while (!rest.empty()) {
    const bool counts = !absl::ConsumePrefix(&rest, "W/") || comparison == TagComparison::kWeak;
    // A tag may have commas in it, so its own quotes say where it ends.
    if (rest.empty() || rest.front() != '"') return false;
    const size_t end = rest.find('"', 1);
    if (end == absl::string_view::npos) return false;
    if (counts && rest.substr(0, end + 1) == tag) return true;
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(end + 1));
    if (!absl::ConsumePrefix(&rest, ",")) return false;
    rest = absl::StripLeadingAsciiWhitespace(rest);
  }
  return false;
}

}  // namespace recollect::http
