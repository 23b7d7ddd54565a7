#include "engine/session/text_stream.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "model/text/tokenizer.h"

namespace recollect::engine {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

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
  std::string_view rest = raw_;
  const auto is_part = [](std::string_view bytes) {  // of whole characters and the next one
    return model::FindInvalidUtf8(bytes, /*allow_partial_end=*/true) < 0;
  };
  while (!rest.empty()) {
    const int64_t invalid = model::FindInvalidUtf8(rest, /*allow_partial_end=*/false);
    const std::string_view whole =
        rest.substr(0, invalid < 0 ? rest.size() : static_cast<size_t>(invalid));
    text_.append(whole);
    rest.remove_prefix(whole.size());
    if (rest.empty() || (!final && is_part(rest))) break;
    size_t ill_formed = 1;
    while (ill_formed < rest.size() && is_part(rest.substr(0, ill_formed + 1))) ++ill_formed;
    text_.append(kReplacement);
    rest.remove_prefix(ill_formed);
  }
  raw_.erase(0, raw_.size() - rest.size());
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
