#include "model/text/printable.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/text/tokenizer.h"

namespace recollect::model {
namespace {

// Unicode's controls, format characters, separators of lines, fillers and variation selectors.
constexpr struct {
  uint32_t first, last;
} kInvisible[] = {{0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},      {0x34f, 0x34f},
                  {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},  {0x180b, 0x180f},
                  {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},  {0x3164, 0x3164},
                  {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},  {0xfff0, 0xfffb},
                  {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

// The bytes of the first character; none where it is not UTF-8. REQUIRES: `text` is not empty.
absl::string_view FirstCharacter(absl::string_view text) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(4, text.size()); ++bytes) {
    const absl::string_view character = text.substr(0, bytes);
    const bool valid = FindInvalidUtf8({character.data(), bytes}, /*allow_partial_end=*/false) < 0;
    if (valid) return character;
  }
  return {};
}

uint32_t CodePoint(absl::string_view character) {
  const auto lead = static_cast<uint8_t>(character[0]);
  uint32_t code = character.size() == 1 ? lead : lead & (0x7f >> character.size());
  for (const char next : character.substr(1))
    code = code << 6 | (static_cast<uint8_t>(next) & 0x3f);
  return code;
}

bool Shows(uint32_t code) {
  return std::none_of(std::begin(kInvisible), std::end(kInvisible), [code](const auto& range) {
    return code >= range.first && code <= range.last;
  });
}

}  // namespace

bool IsPrintable(absl::string_view text) {
  while (!text.empty()) {
    const absl::string_view character = FirstCharacter(text);
    if (character.empty() || !Shows(CodePoint(character))) return false;
    text.remove_prefix(character.size());
  }
  return true;
}

std::string EscapeInvisible(absl::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const absl::string_view character = FirstCharacter(text);
    if (character.empty()) {
      absl::StrAppendFormat(&escaped, "\\x%02x", static_cast<uint8_t>(text[0]));
    } else if (const uint32_t code = CodePoint(character); Shows(code)) {
      absl::StrAppend(&escaped, character);
    } else {
      absl::StrAppendFormat(&escaped, "\\u{%x}", code);
    }
    text.remove_prefix(std::max<size_t>(character.size(), 1));
  }
  return escaped;
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
