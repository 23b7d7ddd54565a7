#include "cli/common/options.h"

#include <cctype>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/status.h"
#include "cli/common/text_source.h"
#include "model/text/tokenizer.h"

namespace recollect::cli {

absl::Status CheckUtf8(const std::string& flag, const std::string& text) {
  const int64_t bad = model::FindInvalidUtf8(text, /*allow_partial_end=*/false);
  if (bad < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(flag, ": not UTF-8 at byte ", bad));
}

absl::StatusOr<int64_t> ParseTokenCount(const std::string& flag, const std::string& text) {
  int64_t scale = 1;
  std::string digits = text;
  if (!digits.empty()) {
    const int unit = std::tolower(static_cast<unsigned char>(digits.back()));
    scale = unit == 'k' ? 1 << 10 : unit == 'm' ? 1 << 20 : 1;
    if (scale > 1) digits.pop_back();
  }
  constexpr int64_t kMax = int64_t{1} << 30;
  int64_t count = 0;
  if (!absl::SimpleAtoi(digits, &count) || count < 1 || count > kMax / scale ||
      count * scale < 256) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": '", text, "', limit 256 to 1024m"));
  }
  return count * scale;
}

absl::StatusOr<std::string> ReadApiKey(const Options& options) {
  if (options.api_key_file.empty()) {
    const char* key = std::getenv("RECOLLECT_API_KEY");
    return std::string(key == nullptr ? "" : key);
  }
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(options.api_key_file));
  const std::string key(
      absl::StripAsciiWhitespace(WithoutByteOrderMark(text).substr(0, text.find('\n'))));
  if (key.empty())
    return absl::InvalidArgumentError(absl::StrCat(options.api_key_file, ": no key in it"));
  return key;
}

absl::StatusOr<std::string> ReadTlsCa(const Options& options) {
  if (options.tls_ca_file.empty()) return "";
  ASSIGN_OR_RETURN(std::string text, ReadWholeFile(options.tls_ca_file));
  if (absl::StrContains(text, "-----BEGIN CERTIFICATE-----")) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(options.tls_ca_file, ": no certificate in it (PEM)"));
}

absl::StatusOr<std::string> ReadInput(const std::string& path) {
  constexpr int64_t kPartBytes = 1 << 16;
  ASSIGN_OR_RETURN(const auto source, TextSource::Open(path));
  std::string text;
  while (true) {
    ASSIGN_OR_RETURN(const std::string part, source->Read(std::ssize(text), kPartBytes));
    if (part.empty()) return text;
    text += part;
  }
}

}  // namespace recollect::cli
