// The texts around the messages of a conversation, by template. Private to model/; users see
// chat_template.h.
#ifndef RECOLLECT_MODEL_TEXT_CHAT_FORMAT_H_
#define RECOLLECT_MODEL_TEXT_CHAT_FORMAT_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace recollect::model {

// The texts before and after a message, with control tokens written by name, which ChatTemplate
// parses. Empty if the format lacks the role.
struct ChatAround {
  std::string before, after;
};

// A format as text.
struct ChatFormat {
  std::string_view name;
  // The control tokens that occur below. Names in brackets, like [INST], may also be text.
  std::vector<std::string_view> controls;
  std::vector<std::string_view> ends;  // tokens that end an answer, the first one in `assistant`
  bool begins = false;                 // with the tokenizer's begin token
  ChatAround system, user, assistant;
  std::string default_system;  // a whole message, put where a conversation has no system message
  std::string opening;         // of the answer
  // A system message is put in front of the first user's message, with an empty line between them.
  bool system_in_user = false;
  bool takes_system = true;
  bool alternates = false;  // user and assistant in turn, nothing else
  bool trims = false;       // whitespace around a message is dropped
};

// Finds a format by name.
std::optional<ChatFormat> NamedChatFormat(std::string_view name);
std::span<const std::string_view> ChatFormatNames();

// Recognises the format of a Jinja text by its contents; returns nothing for unknown ones.
std::optional<ChatFormat> RecognizeChatFormat(std::string_view jinja);

}  // namespace recollect::model

#endif  // RECOLLECT_MODEL_TEXT_CHAT_FORMAT_H_
