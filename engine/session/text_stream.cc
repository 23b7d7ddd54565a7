#include "engine/session/text_stream.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace recollect::engine {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Lead {
  size_t length;      // of the character; 0: no character begins with this byte
  uint8_t low, high;  // allowed second byte (Unicode table 3-7)
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xc2 && byte <= 0xdf) return {2, 0x80, 0xbf};
  if (byte == 0xe0) return {3, 0xa0, 0xbf};
  if (byte == 0xed) return {3, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {3, 0x80, 0xbf};
  if (byte == 0xf0) return {4, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {4, 0x80, 0xbf};
  if (byte == 0xf4) return {4, 0x80, 0x8f};
  return {0, 0, 0};
}

// Length of the longest prefix of `s` that begins a character, and whether it is one.
std::pair<size_t, bool> ScanCharacter(std::string_view s) {
  const Lead lead = LeadOf(static_cast<uint8_t>(s[0]));
  if (lead.length == 0) return {1, false};
  size_t n = 1;
  while (n < lead.length && n < s.size()) {
    const uint8_t byte = static_cast<uint8_t>(s[n]);
    const uint8_t low = n == 1 ? lead.low : 0x80, high = n == 1 ? lead.high : 0xbf;
    if (byte < low || byte > high) return {n, false};
    ++n;
  }
  return {n, n == lead.length};
}

// Length of the longest suffix of `text` that is a proper prefix of `stop`.
size_t PartialStop(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == stop.substr(0, n)) return n;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stops) : stops_(std::move(stops)) {}

void TextStream::DecodeRaw(bool final) {
  size_t at = 0;
  while (at < raw_.size()) {
    const std::string_view rest = std::string_view(raw_).substr(at);
    const auto [length, complete] = ScanCharacter(rest);
    if (!complete && length == rest.size() && LeadOf(static_cast<uint8_t>(rest[0])).length != 0 &&
        !final)
      break;
    text_.append(complete ? rest.substr(0, length) : kReplacement);
    at += length;
  }
  raw_.erase(0, at);
}

std::string TextStream::Push(std::string_view bytes) {
  if (stopped_) return "";
  raw_.append(bytes);
  DecodeRaw(/*final=*/false);
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, text_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    text_.resize(first);
    raw_.clear();
    return std::exchange(text_, "");
  }
  size_t held = 0;
  for (const std::string& stop : stops_) held = std::max(held, PartialStop(text_, stop));
  std::string certain = text_.substr(0, text_.size() - held);
  text_.erase(0, certain.size());
  return certain;
}

std::string TextStream::Flush() {
  if (stopped_) return "";
  DecodeRaw(/*final=*/true);
  return std::exchange(text_, "");
}

}  // namespace recollect::engine
