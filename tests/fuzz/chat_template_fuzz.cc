// The input is a template's Jinja text, a byte 0, and the content of a message. No text becomes
// anything but a known format, and no message a control token.
#include <algorithm>
#include <vector>

#include "model/text/chat_template.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/support/tiny_bpe.h"

namespace {

using namespace recollect;  // NOLINT
using model::ChatTemplate;

const model::BpeTokenizer& Tokens() {
  static const auto& tokenizer = *new auto(
      TinyBpeTokenizer(model::PreTokenizer::kSmollm,
                       {"<s>", "</s>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
                        "<|end_of_text|>", "<start_of_turn>", "<end_of_turn>"}));
  return *tokenizer;
}

// Counts the control tokens of a conversation whose messages have this content; -1: it is refused.
int64_t ControlsAround(const ChatTemplate& chat, std::string_view content) {
  std::vector<ChatMessage> messages = {{ChatRole::kUser, std::string(content)},
                                       {ChatRole::kAssistant, std::string(content)},
                                       {ChatRole::kUser, "x"}};
  if (chat.takes_system())
    messages.insert(messages.begin(), {ChatRole::kSystem, std::string(content)});
  const auto rendered = chat.RenderWithEnds(Tokens(), messages);
  if (!rendered.ok()) {
    fuzz::CheckRefusal(rendered.status(), {absl::StatusCode::kInvalidArgument});
    return -1;
  }
  RECOLLECT_CHECK(rendered->message_ends.size() == messages.size());
  RECOLLECT_CHECK(std::ranges::is_sorted(rendered->message_ends));
  RECOLLECT_CHECK(rendered->message_ends.back() <= std::ssize(rendered->ids));
  return std::ranges::count_if(rendered->ids,
                               [](int32_t id) { return !Tokens().ControlName(id).empty(); });
}

void CheckMessage(const ChatTemplate& chat, std::string_view content) {
  const int64_t controls = ControlsAround(chat, content);
  RECOLLECT_CHECK(controls == -1 || controls == ControlsAround(chat, "x"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::AsText(data, size);
  const std::string_view jinja = text.substr(0, text.find('\0'));
  const std::string_view content = text.substr(std::min(size, jinja.size() + 1));
  const auto recognized = ChatTemplate::Recognize(jinja, Tokens());
  if (recognized.ok()) {
    RECOLLECT_CHECK(std::ranges::count(ChatTemplate::Names(), recognized->name()) == 1);
    CheckMessage(*recognized, content);
  } else {
    fuzz::CheckRefusal(recognized.status(), {absl::StatusCode::kInvalidArgument});
  }
  for (const std::string_view name : ChatTemplate::Names())
    CheckMessage(ChatTemplate::Named(name, Tokens()).value(), content);
  return 0;
}
