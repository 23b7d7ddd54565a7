// A message of a conversation, as a chat client sends it.
#pragma once

#include <string>

namespace recollect {

enum class ChatRole { kSystem, kUser, kAssistant };

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  std::string content;  // UTF-8; names of control tokens are ordinary text
  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};

}  // namespace recollect
