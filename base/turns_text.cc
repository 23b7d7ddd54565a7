#include "base/turns_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace recollect {

std::string TurnsText(const std::vector<ChatMessage>& messages) {
  std::string text;
  for (const ChatMessage& message : messages) {
    const absl::string_view said = absl::StripAsciiWhitespace(message.content);
    if (message.role == ChatRole::kSystem || said.empty()) continue;
    const bool asks = message.role == ChatRole::kUser;
    absl::StrAppend(&text, asks ? kQuestionOpening : kAnswerOpening, said, "\n");
  }
  return text;
}

}  // namespace recollect
