// Renders a conversation as a chat model's file wants it: with the control tokens and role names
// around the messages. Seven formats are known; a model's own Jinja text is recognised by what it
// contains, never run.
//
//   ASSIGN_OR_RETURN(const auto chat, ChatTemplate::Recognize(jinja, tokenizer));
//   ASSIGN_OR_RETURN(const auto ids, chat.Render(tokenizer, {{ChatRole::kUser, "Hello"}}));
//   // Generate until a token of chat.ends().
//
// Messages are encoded as text, and no text encodes to a control token: a message cannot end itself
// or begin another one. Text between two control tokens is one run ("user\nHello"), so that the ids
// are those of the library for the rendered text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/chat_message.h"
#include "model/text/tokenizer.h"

namespace recollect::model {

// A conversation as tokens, and where its messages end: a caller that has no room for all of it
// leaves out the oldest messages after the system's and renders the rest.
struct RenderedChat {
  std::vector<int32_t> ids;
  // Per message, the number of ids up to its end. Ids before the first message (the begin token,
  // the template's own system line) count towards it. If the template has no system role, a system
  // message is part of the first user's message and ends at 0.
  std::vector<int64_t> message_ends;
};

struct ChatFormat;  // chat_format.h

// Immutable after creation; thread-safe. Copies share what they hold. The tokenizer passed to a
// function must be the one that the template was made for.
class ChatTemplate {
 public:
  // Recognises the Jinja text of a model file by its content. INVALID_ARGUMENT for an unknown text
  // names --chat-template and the known names; for a tokenizer that lacks a control token, it names
  // that token. `begins`: a conversation begins with the tokenizer's begin token even where the
  // text does not write it.
  static absl::StatusOr<ChatTemplate> Recognize(std::string_view jinja, const Tokenizer& tokenizer,
                                                bool begins = false);
  // Finds a template by name: chatml, llama3, qwen, gemma, mistral, llama2, zephyr. Errors and
  // `begins` as in Recognize.
  static absl::StatusOr<ChatTemplate> Named(std::string_view name, const Tokenizer& tokenizer,
                                            bool begins = false);
  static std::span<const std::string_view> Names();
  static std::string AllNames();  // with commas between them

  // Returns the ids of a conversation and of the opening of the assistant's answer.
  // INVALID_ARGUMENT names the index of a message that is out of order, empty or not UTF-8, and
  // what was expected: a system message only first and only where the template has a place for it,
  // then a user's, the last one a user's. gemma, mistral and llama2 want user and assistant in
  // turn; the others take several of one role in a row. An assistant's message may be empty,
  // because an answer may be.
  absl::StatusOr<std::vector<int32_t>> Render(const Tokenizer& tokenizer,
                                              std::span<const ChatMessage> messages) const;
  absl::StatusOr<RenderedChat> RenderWithEnds(const Tokenizer& tokenizer,
                                              std::span<const ChatMessage> messages) const;

  // The tokens that end an answer: the end of a turn, the end of text.
  std::span<const int32_t> ends() const;
  // Whether a conversation may begin with a system message.
  bool takes_system() const;
  std::string_view name() const;

 private:
  struct State;
  explicit ChatTemplate(std::shared_ptr<const State> state);
  static absl::StatusOr<ChatTemplate> Create(ChatFormat format, const Tokenizer& tokenizer,
                                             bool begins);
  std::shared_ptr<const State> state_;
};

}  // namespace recollect::model
