#include "cli/common/text_encoding.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "model/text/tokenizer.h"

namespace recollect::cli {
namespace {

constexpr size_t kSampleBytes = 4096;  // by which UTF-16 is told
constexpr size_t kLeastSample = 16;

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }
bool IsAscii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

// What the end of valid text has of a character that goes on.
std::string CutCharacter(absl::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 3 && Continues(text[begin - 1])) --begin;
  begin -= begin > 0 ? 1 : 0;
  const absl::string_view last = text.substr(begin);
  const bool whole = model::FindInvalidUtf8({last.data(), last.size()}, false) < 0;
  return whole ? "" : std::string(last);
}

// By its mark, or because of most characters one of the two bytes is 0, always the same one.
std::string Utf16In(absl::string_view text) {
  if (absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff")) return "UTF-16";
  const absl::string_view sample = text.substr(0, kSampleBytes);
  if (sample.size() < kLeastSample) return "";
  size_t zeros[2] = {};
  for (size_t i = 0; i < sample.size(); ++i) zeros[i % 2] += sample[i] == '\0' ? 1 : 0;
  const size_t most = sample.size() / 4;  // half of the characters
  if (zeros[0] == 0 && zeros[1] >= most) return "UTF-16LE";
  return zeros[1] == 0 && zeros[0] >= most ? "UTF-16BE" : "";
}

bool LooksBinary(absl::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return c == '\0' || (IsAscii(c) && std::iscntrl(c) && !std::isspace(c) && c != '\x1b');
  });
}

// Windows' set has the letters of Latin-1 and more signs, but nothing at these five.
std::string EightBitSetOf(absl::string_view text) {
  return text.find_first_of("\x81\x8d\x8f\x90\x9d") == absl::string_view::npos ? "WINDOWS-1252"
                                                                               : "ISO-8859-1";
}

std::string ForShell(const std::string& path) {
  if (path == "-") return "";
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) {
    return IsAscii(c) && (std::isalnum(c) || absl::StrContains("._/+-", absl::string_view(&c, 1)));
  });
  if (plain) return absl::StrCat(" ", path);
  return absl::StrCat(" '", absl::StrReplaceAll(path, {{"'", "'\\''"}}), "'");
}

std::string Conversion(absl::string_view from, const std::string& path) {
  return absl::StrCat("convert it with: iconv -f ", from, " -t UTF-8", ForShell(path));
}

// `bad`: where in `text` the first byte lies that is not UTF-8.
std::string Advice(absl::string_view text, size_t bad, const std::string& path) {
  if (const std::string utf16 = Utf16In(text); !utf16.empty())
    return absl::StrCat("it looks like ", utf16, "; ", Conversion(utf16, path));
  if (LooksBinary(text)) return "it looks like no text, but a binary file";
  if (!std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), IsAscii))
    return absl::StrCat("other parts are UTF-8, so it is damaged; leave such bytes out with: ",
                        "iconv -c -f UTF-8 -t UTF-8", ForShell(path));
  const std::string set = EightBitSetOf(text);
  return absl::StrCat("it looks like Latin-1 or another set of one byte a character; if so, ",
                      Conversion(set, path));
}

}  // namespace

absl::Status Utf8Check::Take(int64_t offset, absl::string_view piece) {
  const int64_t end = offset + static_cast<int64_t>(piece.size());
  std::string text;
  if (offset == next_) {
    text = absl::StrCat(cut_, piece);
  } else {  // whose first character may have begun before it
    const auto begin = std::find_if_not(piece.begin(), piece.end(), Continues);
    text.assign(begin, piece.end());
  }
  next_ = end;
  const int64_t begin = end - static_cast<int64_t>(text.size());
  const int64_t bad = model::FindInvalidUtf8(text, /*allow_partial_end=*/!piece.empty());
  if (bad >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("text is not valid UTF-8 at byte ", begin + bad,
                                                   ": ",
                                                   Advice(text, static_cast<size_t>(bad), path_)));
  }
  if (const std::string utf16 = begin == 0 ? Utf16In(text) : ""; !utf16.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("text is not UTF-8, it looks like ", utf16, "; ", Conversion(utf16, path_)));
  }
  cut_ = CutCharacter(text);
  return absl::OkStatus();
}

}  // namespace recollect::cli
