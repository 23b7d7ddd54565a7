// UTF-8 validity as the standard has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#include "model/text/tokenizer.h"

namespace recollect::model {

int64_t FindInvalidUtf8(std::string_view text, bool allow_partial_end) {
  const int64_t size = static_cast<int64_t>(text.size());
  const auto byte = [&](int64_t i) { return static_cast<uint8_t>(text[static_cast<size_t>(i)]); };
  for (int64_t i = 0; i < size;) {
    const uint8_t lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    int64_t length = 0;
    // Bounds of the second byte: this is where overlong forms, surrogates and too large values
    // show.
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
      length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
      length = 3;
      if (lead == 0xe0) low = 0xa0;
      if (lead == 0xed) high = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
      length = 4;
      if (lead == 0xf0) low = 0x90;
      if (lead == 0xf4) high = 0x8f;
    } else {
      return i;
    }
    for (int64_t j = 1; j < length; ++j) {
      if (i + j == size) return allow_partial_end ? -1 : i;
      const uint8_t next = byte(i + j);
      if (next < (j == 1 ? low : 0x80) || next > (j == 1 ? high : 0xbf)) return i;
    }
    i += length;
  }
  return -1;
}

std::string WholeCharacters(std::string text) {
  size_t begin = 0;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) ++begin;
  text.erase(0, begin);
  const int64_t cut = FindInvalidUtf8(text, /*allow_partial_end=*/false);
  if (cut >= 0) text.resize(static_cast<size_t>(cut));
  return text;
}

}  // namespace recollect::model
