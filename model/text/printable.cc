#include "model/text/printable.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace recollect::model {
namespace {

// Unicode's controls, format characters, separators of lines, fillers and variation selectors.
constexpr struct {
  int32_t first, last;
} kInvisible[] = {{0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},      {0x34f, 0x34f},
                  {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},  {0x180b, 0x180f},
                  {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},  {0x3164, 0x3164},
                  {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},  {0xfff0, 0xfffb},
                  {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

struct Character {
  size_t bytes = 1;
  bool valid = false;  // UTF-8
  int32_t code = 0;
};

// REQUIRES: `text` is not empty.
Character First(absl::string_view text) {
  Character first;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const utf8proc_ssize_t size =
      utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size()), &first.code);
  first.valid = size > 0;
  if (first.valid) first.bytes = static_cast<size_t>(size);
  return first;
}

bool Shows(int32_t code) {
  return std::none_of(std::begin(kInvisible), std::end(kInvisible), [code](const auto& range) {
    return code >= range.first && code <= range.last;
  });
}

// `kept`: characters that stay although they do not show.
std::string Escaped(absl::string_view text, absl::string_view kept) {
  std::string escaped;
  while (!text.empty()) {
    const Character first = First(text);
    if (!first.valid) {
      absl::StrAppendFormat(&escaped, "\\x%02x", static_cast<uint8_t>(text[0]));
    } else if (Shows(first.code) || absl::StrContains(kept, text.substr(0, first.bytes))) {
      absl::StrAppend(&escaped, text.substr(0, first.bytes));
    } else {
      absl::StrAppendFormat(&escaped, "\\u{%x}", first.code);
    }
    text.remove_prefix(first.bytes);
  }
  return escaped;
}

}  // namespace

bool IsPrintable(absl::string_view text) {
  while (!text.empty()) {
    const Character first = First(text);
    if (!first.valid || !Shows(first.code)) return false;
    text.remove_prefix(first.bytes);
  }
  return true;
}

std::string EscapeInvisible(absl::string_view text) { return Escaped(text, ""); }

std::string PrintableText(absl::string_view text) {
  return Escaped(absl::StrReplaceAll(text, {{"\r", ""}}), "\n\t");
}

std::string Shortened(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "… (", text.size(), " bytes)");
}

std::string Quoted(std::string_view text, size_t most) {
  const absl::string_view view(text.data(), text.size());
  return absl::StrCat("\"", EscapeInvisible(Shortened(view, most)), "\"");
}

}  // namespace recollect::model
