// The texts around the messages of a conversation, by template. Private to model/; users see
// chat_template.h.
#pragma once

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
  std::vector<std::string_view> controls;  // the control tokens that occur below
  // Marks that are control tokens where the tokenizer has them, and else text.
  std::vector<std::string_view> marks = {};
  std::vector<std::string_view> ends;  // tokens that end an answer, the first one in `assistant`
  bool begins = false;                 // with the tokenizer's begin token
  ChatAround system = {}, user = {}, assistant = {};
  std::string default_system =
      {};                    // a whole message, put where a conversation has no system message
  std::string opening = {};  // of the answer
  // A system message, with its texts around it, is put in front of the first user's content.
  bool system_in_user = false;
  bool takes_system = true;
  bool alternates = false;  // user and assistant in turn, nothing else
  // Whitespace around a message is dropped: around all, only around the assistant's, and of a
  // user's that has the system's in front only behind it.
  bool trims = false, trims_answers = false, trims_after_system = false;
};

// Finds a format by name.
std::optional<ChatFormat> NamedChatFormat(std::string_view name);
std::span<const std::string_view> ChatFormatNames();

// Recognises the format of a Jinja text by its contents; returns nothing for unknown ones.
std::optional<ChatFormat> RecognizeChatFormat(std::string_view jinja);

}  // namespace recollect::model
