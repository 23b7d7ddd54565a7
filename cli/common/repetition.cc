#include "cli/common/repetition.h"

#include <algorithm>

namespace recollect::cli {
namespace {

constexpr size_t kBytes = 160;  // a refrain, or a row of dashes, is shorter

// Three times, but for what may stand between paragraphs of a sentence that is said three times.
size_t Enough(size_t period) { return std::max(period * 11 / 4, kBytes); }

// How much of the end of `text` repeats with this period.
size_t RepeatedBytes(std::string_view text, size_t period) {
  size_t bytes = period;
  while (bytes < text.size() &&
         text[text.size() - bytes - 1] == text[text.size() - bytes - 1 + period])
    ++bytes;
  return bytes;
}

}  // namespace

std::optional<size_t> BeforeRepetition(std::string_view text) {
  for (size_t period = 1; Enough(period) <= text.size(); ++period) {
    const size_t bytes = RepeatedBytes(text, period);
    if (bytes >= Enough(period)) return text.size() - bytes + period;
  }
  return std::nullopt;
}

}  // namespace recollect::cli
