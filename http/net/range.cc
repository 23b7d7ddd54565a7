#include "http/net/range.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace recollect::http {
namespace {

// Digits alone; what is larger than a number is as good as the largest.
bool ParseDigits(absl::string_view text, int64_t& number) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) return false;
  if (!absl::SimpleAtoi(text, &number)) number = std::numeric_limits<int64_t>::max();
  return true;
}

}  // namespace

absl::StatusOr<std::optional<ByteRange>> ParseRange(absl::string_view header, int64_t size) {
  constexpr absl::string_view kUnit = "bytes=";
  if (!absl::StartsWithIgnoreCase(header, kUnit)) return std::nullopt;
  const absl::string_view range = absl::StripAsciiWhitespace(header.substr(kUnit.size()));
  const size_t dash = range.find('-');
  if (dash == absl::string_view::npos) return std::nullopt;
  const absl::string_view first_text = range.substr(0, dash), last_text = range.substr(dash + 1);
  int64_t first = 0, last = std::numeric_limits<int64_t>::max();
  if (!last_text.empty() && !ParseDigits(last_text, last)) return std::nullopt;
  if (first_text.empty()) {  // the last bytes, so many
    if (last_text.empty()) return std::nullopt;
    if (last > 0 && size > 0) return ByteRange{size - std::min(last, size), size};
  } else {
    if (!ParseDigits(first_text, first) || last < first) return std::nullopt;
    if (first < size) return ByteRange{first, std::min(last, size - 1) + 1};
  }
  return absl::OutOfRangeError(
      absl::StrCat("Range: '", range, "', nothing of it is among ", size, " bytes"));
}

}  // namespace recollect::http
