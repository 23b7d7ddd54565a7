#include "http/net/path.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace recollect::http {

absl::StatusOr<std::string> DecodePercent(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size() || !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]))) {
      return absl::InvalidArgumentError(
          absl::StrCat("the path or query has a '%' without two hexadecimal digits at byte ", i,
                       " of '", absl::CHexEscape(text), "'"));
    }
    decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
    i += 2;
  }
  return decoded;
}

absl::StatusOr<std::map<std::string, std::string>> DecodeQuery(absl::string_view text) {
  std::map<std::string, std::string> query;
  for (const absl::string_view field : absl::StrSplit(text, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    ASSIGN_OR_RETURN(std::string name,
                     DecodePercent(absl::StrReplaceAll(parts.first, {{"+", " "}})));
    ASSIGN_OR_RETURN(std::string value,
                     DecodePercent(absl::StrReplaceAll(parts.second, {{"+", " "}})));
    if (!query.emplace(name, std::move(value)).second)
      return absl::InvalidArgumentError(absl::StrCat(name, ": given twice in the query"));
  }
  return query;
}

}  // namespace recollect::http
