#include "engine/session/repetition.h"

#include <algorithm>

namespace recollect::engine {
namespace {

constexpr size_t kLeastBytes = 160;  // a refrain, or a row of dashes, is shorter

constexpr size_t kSaidAgainBytes = 48;  // names and beginnings of sentences are shorter

// Three times, but for what may stand between paragraphs of a sentence that is said three times.
size_t Enough(size_t period) { return std::max(period * 11 / 4, kLeastBytes); }

// How much of the end of `text` repeats with this period.
size_t RepeatedBytes(std::string_view text, size_t period) {
  size_t bytes = period;
  while (bytes < text.size() &&
         text[text.size() - bytes - 1] == text[text.size() - bytes - 1 + period])
    ++bytes;
  return bytes;
}

// The bytes up to the end of the first time of what the end of `text` repeats; 0: it does not.
size_t BeforeRepetition(std::string_view text) {
  for (size_t period = 1; Enough(period) <= text.size(); ++period) {
    const size_t bytes = RepeatedBytes(text, period);
    if (bytes >= Enough(period)) return text.size() - bytes + period;
  }
  return 0;
}

// The bytes before the end of `text` that stands in what precedes it; 0: it does not.
size_t BeforeSecondTime(std::string_view text) {
  const size_t before = text.size() - std::min(text.size(), kSaidAgainBytes);
  const bool again = text.substr(0, before).find(text.substr(before)) != text.npos;
  return again ? before : 0;
}

bool IsWithinCharacter(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

}  // namespace

void Repetition::Push(std::string_view text) {
  if (begin_ > 0 || text.empty()) return;
  end_ += text;
  const size_t beyond = end_.size() - std::min(end_.size(), kMaxBytes);
  end_.erase(0, beyond);
  before_ += static_cast<int64_t>(beyond);
  size_t bytes = BeforeRepetition(end_);
  if (bytes == 0 && with_documents_) bytes = BeforeSecondTime(end_);
  if (bytes == 0) return;
  while (IsWithinCharacter(end_, bytes)) ++bytes;  // characters that differ may end alike
  begin_ = before_ + static_cast<int64_t>(bytes);
}

}  // namespace recollect::engine
