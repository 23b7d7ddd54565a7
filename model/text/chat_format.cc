#include "model/text/chat_format.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace recollect::model {
namespace {

ChatFormat ChatMl() {
  return {.name = "chatml",
          .controls = {"<|im_start|>", "<|im_end|>"},
          .ends = {"<|im_end|>", "<|endoftext|>"},
          .system = {"<|im_start|>system\n", "<|im_end|>\n"},
          .user = {"<|im_start|>user\n", "<|im_end|>\n"},
          .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
          .opening = "<|im_start|>assistant\n"};
}

std::string WholeSystem(const ChatFormat& format, std::string_view content) {
  return absl::StrCat(format.system.before, std::string(content), format.system.after);
}

ChatFormat Qwen() {
  ChatFormat format = ChatMl();
  format.name = "qwen";
  format.default_system =
      WholeSystem(format, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
  return format;
}

ChatFormat Llama3() {
  return {.name = "llama3",
          .controls = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
          .ends = {"<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"},
          .begins = true,
          .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
          .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
          .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
          .opening = "<|start_header_id|>assistant<|end_header_id|>\n\n",
          .trims = true};
}

ChatFormat Gemma() {
  return {.name = "gemma",
          .controls = {"<start_of_turn>", "<end_of_turn>"},
          .ends = {"<end_of_turn>", "<eos>"},
          .begins = true,
          .system = {"", "\n\n"},
          .user = {"<start_of_turn>user\n", "<end_of_turn>\n"},
          .assistant = {"<start_of_turn>model\n", "<end_of_turn>\n"},
          .opening = "<start_of_turn>model\n",
          .takes_system = false,
          .alternates = true,
          .trims = true};
}

ChatFormat Mistral() {
  return {.name = "mistral",
          .controls = {"</s>"},
          .marks = {"[INST]", "[/INST]"},
          .ends = {"</s>"},
          .begins = true,
          .system = {"", "\n\n"},
          .user = {"[INST] ", " [/INST]"},
          .assistant = {"", "</s>"},
          .takes_system = false,
          .alternates = true};
}

// Each of a user's messages begins with the begin token.
ChatFormat Llama2() {
  ChatFormat format = Mistral();
  format.name = "llama2";
  format.controls = {"<s>", "</s>"};
  format.begins = false;
  format.system = {"<<SYS>>\n", "\n<</SYS>>\n\n"};
  format.user = {"<s>[INST] ", " [/INST]"};
  format.assistant = {" ", " </s>"};
  format.system_in_user = format.takes_system = true;
  format.trims = format.trims_after_system = true;
  return format;
}

ChatFormat Zephyr() {
  return {.name = "zephyr",
          .controls = {"</s>"},
          .marks = {"<|system|>", "<|user|>", "<|assistant|>"},
          .ends = {"</s>"},
          .system = {"<|system|>\n", "</s>\n"},
          .user = {"<|user|>\n", "</s>\n"},
          .assistant = {"<|assistant|>\n", "</s>\n"},
          .opening = "<|assistant|>\n"};
}

// A Jinja text in the two forms in which it is looked at.
class JinjaText {
 public:
  explicit JinjaText(std::string_view jinja)
      : literal_(absl::StrReplaceAll(absl::string_view(jinja.data(), jinja.size()),
                                     {{"\\n", "\n"}, {"\\'", "'"}, {"\\\"", "\""}})),
        joined_(absl::StrReplaceAll(literal_, {{"'", ""}, {"\"", ""}, {"+", ""}, {" ", ""}})) {}

  // Whether it has this text, inside quotes or outside.
  bool Has(std::string_view text) const { return literal_.find(text) != std::string::npos; }
  // Whether it has this text once quotes, pluses and spaces are gone: 'a' + 'b' counts as ab.
  bool HasJoined(std::string_view text) const { return joined_.find(text) != std::string::npos; }
  bool HasQuoted(std::string_view text) const {
    return Has(absl::StrCat("'", std::string(text), "'")) ||
           Has(absl::StrCat("\"", std::string(text), "\""));
  }
  bool TrimsContent() const {
    return HasJoined("content]|trim") || HasJoined("content|trim") || HasJoined("content.strip()");
  }
  // Whether a quoted space is added before or after this text.
  bool AddsSpace(std::string_view before, std::string_view after) const {
    for (const char* space : {"' '", "\" \""}) {
      for (const char* plus : {" + ", "  + "}) {
        if (Has(absl::StrCat(std::string(before), before.empty() ? "" : plus, space,
                             after.empty() ? "" : plus, std::string(after)))) {
          return true;
        }
      }
    }
    return false;
  }

  // The text between `before` and the next `after`, of the first place where it is not empty and
  // has no quotes: a part of one literal.
  std::string Between(std::string_view before, std::string_view after) const {
    for (size_t at = literal_.find(before); at != std::string::npos;
         at = literal_.find(before, at + 1)) {
      const size_t begin = at + before.size();
      const size_t end = literal_.find(after, begin);
      if (end == std::string::npos) break;
      const std::string text = literal_.substr(begin, end - begin);
      if (!text.empty() && text.find_first_of("'\"{}") == std::string::npos) return text;
    }
    return "";
  }

 private:
  const std::string literal_, joined_;
};

std::optional<ChatFormat> RecognizeChatMl(const JinjaText& jinja) {
  // A template that drops an answer's reasoning writes other texts than these.
  if (jinja.Has("<think>") || !jinja.HasJoined("<|im_end|>\n") ||
      !jinja.HasJoined("<|im_start|>assistant\n")) {
    return std::nullopt;
  }
  ChatFormat format = ChatMl();
  if (jinja.Has("Qwen")) format.name = "qwen";
  const std::string line = jinja.Between(format.system.before, "<|im_end|>");
  if (!line.empty()) format.default_system = WholeSystem(format, line);
  format.begins = jinja.Has("bos_token");
  format.trims = jinja.TrimsContent();
  return format;
}

std::optional<ChatFormat> RecognizeLlama3(const JinjaText& jinja) {
  if (!jinja.Has("<|eot_id|>") || !jinja.HasJoined("<|end_header_id|>\n\n")) return std::nullopt;
  ChatFormat format = Llama3();
  format.begins = jinja.Has("bos_token");
  format.trims = jinja.TrimsContent();
  if (jinja.Has("Today Date: ")) {
    // From 3.1 on every conversation has a system message, which begins with two dates. Today's is
    // the one that the file falls back to, so that equal conversations are equal tokens.
    std::string known = jinja.Between("Cutting Knowledge Date: ", "\n");
    std::string today = jinja.Between("date_string = \"", "\"");
    if (today.empty()) today = jinja.Between("date_string = '", "'");
    if (known.empty() || today.empty()) return std::nullopt;
    absl::StrAppend(&format.system.before, "Cutting Knowledge Date: ", known,
                    "\nToday Date: ", today, "\n\n");
    format.default_system = WholeSystem(format, "");
  }
  return format;
}

std::optional<ChatFormat> RecognizeGemma(const JinjaText& jinja) {
  if (!jinja.Has("<end_of_turn>\n") || !jinja.HasJoined("<start_of_turn>model\n")) {
    return std::nullopt;
  }
  ChatFormat format = Gemma();
  format.begins = jinja.Has("bos_token");
  format.trims = jinja.TrimsContent();
  format.system_in_user = format.takes_system = jinja.Has("first_user_prefix");
  return format;
}

// The texts around the messages of the templates that write [INST].
void ReadInstructions(const JinjaText& jinja, ChatFormat& format) {
  std::string_view before = "[INST]", after = "[/INST]";
  for (const std::string_view spaced : {"[INST] ", " [INST] "}) {
    if (jinja.HasQuoted(spaced)) before = spaced;
  }
  if (jinja.HasQuoted(" [/INST]")) after = " [/INST]";
  format.user = {std::string(before), std::string(after)};
  format.assistant = {"", "</s>"};
  for (const char* content :
       {"message['content']", "message[\"content\"]", "message.content", "content.strip()"}) {
    if (jinja.AddsSpace("", content)) format.assistant.before = " ";
  }
}

std::optional<ChatFormat> RecognizeMistral(const JinjaText& jinja) {
  if (!jinja.Has("[/INST]") || !jinja.Has("eos_token")) return std::nullopt;
  ChatFormat format = Mistral();
  format.begins = jinja.Has("bos_token");
  ReadInstructions(jinja, format);
  if (jinja.AddsSpace("eos_token", "")) format.assistant.after.push_back(' ');
  format.trims_answers = jinja.HasJoined("content]|trimeos_token");
  format.system_in_user = format.takes_system = jinja.Has("system_message");
  return format;
}

std::optional<ChatFormat> RecognizeLlama2(const JinjaText& jinja) {
  // Some have a system message of their own for conversations without one.
  if (!jinja.HasJoined("<<SYS>>\nsystem_message\n<</SYS>>\n\n") || !jinja.Has("[/INST]") ||
      !jinja.Has("eos_token") || jinja.HasJoined("true==true")) {
    return std::nullopt;
  }
  ChatFormat format = Llama2();
  ReadInstructions(jinja, format);
  const bool each = jinja.HasJoined("bos_token[INST]");
  if (each) format.user.before.insert(0, "<s>");
  format.begins = !each && jinja.Has("bos_token");
  if (jinja.AddsSpace("", "eos_token")) format.assistant.after.insert(0, " ");
  format.trims = format.trims_after_system = jinja.TrimsContent();
  return format;
}

std::optional<ChatFormat> RecognizeZephyr(const JinjaText& jinja) {
  for (const char* role : {"<|system|>", "<|user|>", "<|assistant|>"}) {
    if (!jinja.HasJoined(absl::StrCat(role, "\nmessage[content]eos_token}}\n")))
      return std::nullopt;
  }
  if (!jinja.HasJoined("{{<|assistant|>}}\n") && !jinja.HasJoined("{{<|assistant|>\n}}")) {
    return std::nullopt;
  }
  ChatFormat format = Zephyr();
  format.begins = jinja.Has("bos_token");
  return format;
}

}  // namespace

std::span<const std::string_view> ChatFormatNames() {
  static constexpr std::string_view kNames[] = {"chatml",  "llama3", "qwen",  "gemma",
                                                "mistral", "llama2", "zephyr"};
  return kNames;
}

std::optional<ChatFormat> NamedChatFormat(std::string_view name) {
  for (auto* make : {ChatMl, Llama3, Qwen, Gemma, Mistral, Llama2, Zephyr}) {
    if (ChatFormat format = make(); format.name == name) return format;
  }
  return std::nullopt;
}

std::optional<ChatFormat> RecognizeChatFormat(std::string_view jinja) {
  const JinjaText text(jinja);
  if (text.Has("<|im_start|>")) return RecognizeChatMl(text);
  if (text.Has("<|start_header_id|>")) return RecognizeLlama3(text);
  if (text.Has("<start_of_turn>")) return RecognizeGemma(text);
  // Both write [INST]; LLaMA 2's also marks a system message.
  if (text.Has("<<SYS>>")) return RecognizeLlama2(text);
  if (text.Has("[INST]")) return RecognizeMistral(text);
  if (text.Has("<|user|>")) return RecognizeZephyr(text);
  return std::nullopt;
}

}  // namespace recollect::model
