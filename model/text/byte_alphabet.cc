#include "model/text/byte_alphabet.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace recollect::model {
namespace {

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr int kCodePoints = 0x144;  // of which 256 are in the alphabet

// The byte of each code point, -1 for those outside.
constexpr std::array<int16_t, kCodePoints> MakeBytes() {
  std::array<int16_t, kCodePoints> bytes{};
  bytes.fill(-1);
  size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    bytes[StandsForItself(byte) ? static_cast<size_t>(byte) : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}
constexpr std::array<int16_t, kCodePoints> kBytes = MakeBytes();

}  // namespace

std::optional<std::string> FromByteAlphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    size_t code = static_cast<uint8_t>(text[i]);
    if (code >= 0x80) {
      // Every code point of the alphabet has one byte or two.
      const bool pair = code >= 0xc2 && code <= 0xc5 && i + 1 < text.size() &&
                        (static_cast<uint8_t>(text[i + 1]) & 0xc0) == 0x80;
      if (!pair) return std::nullopt;
      code = (code & 0x1f) << 6 | (static_cast<uint8_t>(text[++i]) & 0x3f);
    }
    if (code >= kBytes.size() || kBytes[code] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[code]));
  }
  return bytes;
}

}  // namespace recollect::model
