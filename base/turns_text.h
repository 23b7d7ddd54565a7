// A conversation as plain text.
#pragma once

#include <string>
#include <vector>

#include "base/chat_message.h"

namespace recollect {

// Returns the turns of a conversation, a line or more for each message: whose it is, and its text
// without the blanks around it, since clients send answers back with and without them. System
// messages and empty ones are left out.
//
//   user: When did the ship sail?
//   assistant: In May.
std::string TurnsText(const std::vector<ChatMessage>& messages);

// These words stand before the text of a message there.
inline constexpr char kAnswerOpening[] = "assistant: ";
inline constexpr char kQuestionOpening[] = "user: ";

}  // namespace recollect
