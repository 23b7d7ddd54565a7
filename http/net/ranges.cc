#include "http/net/ranges.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "model/text/printable.h"

namespace recollect::http {
namespace {

constexpr size_t kMaxQuotedBytes = 100;

// Digits only, where SimpleAtoi takes signs and spaces, too.
bool ParseNumber(absl::string_view text, int64_t& number) {
  const auto digit = [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); };
  return std::all_of(text.begin(), text.end(), digit) && absl::SimpleAtoi(text, &number) &&
         number < std::numeric_limits<int64_t>::max();
}

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

absl::StatusOr<ContentRange> ParseContentRange(const std::string& header) {
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Content-Range: '", model::Shortened(model::EscapeInvisible(header), kMaxQuotedBytes),
        "', ", why));
  };
  constexpr char kForm[] = "expected 'bytes FIRST-LAST/TOTAL' or 'bytes FIRST-LAST/*'";
  absl::string_view rest = header;
  if (!absl::ConsumePrefix(&rest, "bytes ")) return refused(kForm);
  const size_t dash = rest.find('-'), slash = rest.find('/');
  if (dash == absl::string_view::npos || slash == absl::string_view::npos || slash < dash)
    return refused(kForm);
  ContentRange range;
  int64_t last = 0, total = 0;
  const absl::string_view total_text = rest.substr(slash + 1);
  if (!ParseNumber(rest.substr(0, dash), range.begin) ||
      !ParseNumber(rest.substr(dash + 1, slash - dash - 1), last) ||
      (total_text != "*" && !ParseNumber(total_text, total))) {
    return refused(kForm);
  }
  if (last < range.begin) return refused("the last byte comes before the first");
  range.end = last + 1;
  if (total_text == "*") return range;
  if (total < range.end) return refused("the last byte is beyond the total");
  range.total = total;
  return range;
}

}  // namespace recollect::http
