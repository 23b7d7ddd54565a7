#include "model/text/chat_template.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "model/text/chat_format.h"
#include "model/text/printable.h"

namespace recollect::model {
namespace {

constexpr std::string_view kBeginName = "<s>";  // as LLaMA 2's format names it

// A control token, or text that no control token parts.
struct Part {
  std::optional<int32_t> control;
  std::string text;
};
using Parts = std::vector<Part>;

void Append(const Parts& added, Parts& parts) {
  for (const Part& part : added) {
    const bool run =
        !part.control.has_value() && !parts.empty() && !parts.back().control.has_value();
    if (run) {
      parts.back().text += part.text;
    } else {
      parts.push_back(part);
    }
  }
}

// The control tokens in the texts of a format: of its marks those that the tokenizer has. Mistral's
// first formats wrote theirs as text.
std::vector<std::string_view> ControlsOf(const ChatFormat& format, const Tokenizer& tokenizer) {
  std::vector<std::string_view> controls = format.controls;
  for (const std::string_view mark : format.marks) {
    if (tokenizer.ControlToken(mark).has_value()) controls.push_back(mark);
  }
  return controls;
}

absl::StatusOr<Parts> TakeApart(std::string_view text, const ChatFormat& format,
                                const Tokenizer& tokenizer) {
  Parts parts;
  const std::vector<std::string_view> controls = ControlsOf(format, tokenizer);
  while (!text.empty()) {
    size_t at = text.npos;
    std::string_view name;
    for (const std::string_view control : controls) {
      if (const size_t found = text.find(control); found < at) {
        at = found;
        name = control;
      }
    }
    if (at != 0) parts.push_back({std::nullopt, std::string(text.substr(0, at))});
    if (at == text.npos) break;
    const std::optional<int32_t> id = tokenizer.ControlToken(name);
    if (!id.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "chat template ", std::string(format.name), ": the tokenizer has no control token ",
          std::string(name), "; name another template with --chat-template"));
    }
    parts.push_back({id, ""});
    text.remove_prefix(at + name.size());
  }
  return parts;
}

// `continues`: the text goes on from what stands before, with no token between.
absl::StatusOr<std::vector<int32_t>> EncodeParts(const Tokenizer& tokenizer, const Parts& parts,
                                                 bool continues) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].control.has_value()) {
      ids.push_back(*parts[i].control);
      continue;
    }
    // Anywhere but at 0 a tokenizer puts no space before the text.
    ASSIGN_OR_RETURN(const Tokenizer::Encoded run,
                     tokenizer.EncodePrefix(parts[i].text, /*final=*/true,
                                            /*base_offset=*/i == 0 && continues ? 1 : 0));
    ids.insert(ids.end(), run.ids.begin(), run.ids.end());
  }
  return ids;
}

// As Jinja's trim does: whitespace of Unicode at both ends.
std::string_view Trimmed(std::string_view text) {
  constexpr std::array<std::string_view, 29> kSpaces = {
      " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",
      "\x1e",   "\x1f",   "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
      "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
      "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  const auto strip = [&](auto at_end, auto remove) {
    while (true) {
      const auto space = std::find_if(kSpaces.begin(), kSpaces.end(), at_end);
      if (space == kSpaces.end()) return;
      remove(space->size());
    }
  };
  strip([&](std::string_view s) { return text.starts_with(s); },
        [&](size_t size) { text.remove_prefix(size); });
  strip([&](std::string_view s) { return text.ends_with(s); },
        [&](size_t size) { text.remove_suffix(size); });
  return text;
}

absl::string_view Whose(ChatRole role) {
  return role == ChatRole::kSystem ? "the system's"
         : role == ChatRole::kUser ? "a user's"
                                   : "the assistant's";
}

absl::Status Unexpected(size_t index, ChatRole role, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("message ", index, " is ", Whose(role), ", expected ", expected));
}

}  // namespace

struct ChatTemplate::State {
  struct Around {
    Parts before, after;
  };
  ChatFormat format;
  Parts begin, default_system;
  Around system, user, assistant;
  std::vector<int32_t> opening, ends;

  bool Trims(ChatRole role) const {
    return format.trims || (format.trims_answers && role == ChatRole::kAssistant);
  }
  const Around& Of(ChatRole role) const {
    return role == ChatRole::kSystem ? system : role == ChatRole::kUser ? user : assistant;
  }
  absl::Status CheckContent(size_t index, const ChatMessage& message) const;
  absl::Status CheckOrder(std::span<const ChatMessage> messages) const;
  // `prefix`: text that stands before the content.
  Parts Message(const ChatMessage& message, std::string_view prefix) const;
};

absl::Status ChatTemplate::State::CheckContent(size_t index, const ChatMessage& message) const {
  const std::string_view content = Trims(message.role) ? Trimmed(message.content) : message.content;
  if (content.empty() && message.role != ChatRole::kAssistant) {
    return absl::InvalidArgumentError(absl::StrCat("message ", index, " (", Whose(message.role),
                                                   ") is empty, expected some text"));
  }
  const int64_t invalid = FindInvalidUtf8(message.content, /*allow_partial_end=*/false);
  if (invalid < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("message ", index, " is not valid UTF-8 at byte ", invalid));
}

absl::Status ChatTemplate::State::CheckOrder(std::span<const ChatMessage> messages) const {
  if (messages.empty()) return absl::InvalidArgumentError("no messages, expected a user's");
  const std::string name(format.name);
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatRole role = messages[i].role;
    const bool after_system = i > 0 && messages[i - 1].role == ChatRole::kSystem;
    if (role == ChatRole::kSystem) {
      if (!format.takes_system) {
        return Unexpected(
            i, role, absl::StrCat("a user's: the chat template ", name, " has no system message"));
      }
      if (i > 0) return Unexpected(i, role, "it first or not at all");
    } else if (role == ChatRole::kAssistant && (i == 0 || after_system)) {
      return Unexpected(i, role, "a user's before it");
    } else if (format.alternates && i > 0 && role == messages[i - 1].role) {
      return Unexpected(
          i, role,
          absl::StrCat(Whose(role == ChatRole::kUser ? ChatRole::kAssistant : ChatRole::kUser),
                       ": the chat template ", name, " takes them in turn"));
    }
    RETURN_IF_ERROR(CheckContent(i, messages[i]));
  }
  if (messages.back().role != ChatRole::kUser) {
    return Unexpected(messages.size() - 1, messages.back().role, "a user's as the last one");
  }
  return absl::OkStatus();
}

Parts ChatTemplate::State::Message(const ChatMessage& message, std::string_view prefix) const {
  const Around& around = Of(message.role);
  const std::string whole = absl::StrCat(std::string(prefix), message.content);
  const bool together = prefix.empty() || format.trims_after_system;
  std::string content = whole;
  if (Trims(message.role)) {
    content = together ? std::string(Trimmed(whole))
                       : absl::StrCat(std::string(prefix), std::string(Trimmed(message.content)));
  }
  Parts parts = around.before;
  Append({{std::nullopt, content}}, parts);
  Append(around.after, parts);
  return parts;
}

ChatTemplate::ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}

absl::StatusOr<ChatTemplate> ChatTemplate::Create(ChatFormat format, const Tokenizer& tokenizer,
                                                  bool begins) {
  const bool own = format.user.before.starts_with(kBeginName);
  format.begins = !own && (format.begins || begins);
  auto state = std::make_shared<State>();
  if (format.begins) {
    const std::optional<int32_t> begin = tokenizer.BeginToken();
    if (!begin.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "chat template ", std::string(format.name),
          ": the tokenizer names no begin token; name another template with --chat-template"));
    }
    state->begin.push_back({begin, ""});
  }
  Parts opening;
  const std::pair<const std::string&, Parts&> texts[] = {
      {format.default_system, state->default_system},
      {format.system.before, state->system.before},
      {format.system.after, state->system.after},
      {format.user.before, state->user.before},
      {format.user.after, state->user.after},
      {format.assistant.before, state->assistant.before},
      {format.assistant.after, state->assistant.after},
      {format.opening, opening}};
  for (const auto& [text, parts] : texts) {
    ASSIGN_OR_RETURN(parts, TakeApart(text, format, tokenizer));
  }
  ASSIGN_OR_RETURN(state->opening, EncodeParts(tokenizer, opening, /*continues=*/true));
  for (const std::string_view end : format.ends) {
    if (const auto id = tokenizer.ControlToken(end); id.has_value()) state->ends.push_back(*id);
  }
  state->format = std::move(format);
  return ChatTemplate(std::move(state));
}

absl::StatusOr<ChatTemplate> ChatTemplate::Recognize(std::string_view jinja,
                                                     const Tokenizer& tokenizer, bool begins) {
  const std::optional<ChatFormat> format = RecognizeChatFormat(jinja);
  if (format.has_value()) return Create(*format, tokenizer, begins);
  constexpr size_t kMaxShown = 80;  // bytes
  return absl::InvalidArgumentError(
      absl::StrCat("the model's chat template is not a known one: ", Quoted(jinja, kMaxShown),
                   "; name one with --chat-template: ", AllNames()));
}

absl::StatusOr<ChatTemplate> ChatTemplate::Named(std::string_view name, const Tokenizer& tokenizer,
                                                 bool begins) {
  const std::optional<ChatFormat> format = NamedChatFormat(name);
  if (format.has_value()) return Create(*format, tokenizer, begins);
  constexpr size_t kMaxShown = 80;  // bytes
  return absl::InvalidArgumentError(
      absl::StrCat("--chat-template ", Quoted(name, kMaxShown), ", expected one of ", AllNames()));
}

std::string ChatTemplate::AllNames() {
  const auto names = ChatFormatNames();
  return absl::StrJoin(names, ", ",
                       [](std::string* out, std::string_view name) { out->append(name); });
}

std::span<const std::string_view> ChatTemplate::Names() { return ChatFormatNames(); }

absl::StatusOr<std::vector<int32_t>> ChatTemplate::Render(
    const Tokenizer& tokenizer, std::span<const ChatMessage> messages) const {
  ASSIGN_OR_RETURN(RenderedChat chat, RenderWithEnds(tokenizer, messages));
  return std::move(chat.ids);
}

absl::StatusOr<RenderedChat> ChatTemplate::RenderWithEnds(
    const Tokenizer& tokenizer, std::span<const ChatMessage> messages) const {
  RETURN_IF_ERROR(state_->CheckOrder(messages));
  RenderedChat chat;
  const bool has_system = messages[0].role == ChatRole::kSystem;
  // Of a format without system messages: what the first user's message begins with.
  std::string prefix;
  Parts parts = state_->begin;
  if (!has_system) Append(state_->default_system, parts);
  for (const ChatMessage& message : messages) {
    if (message.role == ChatRole::kSystem && state_->format.system_in_user) {
      const ChatAround& around = state_->format.system;
      prefix = absl::StrCat(around.before, message.content, around.after);
    } else {
      Append(state_->Message(message, prefix), parts);
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                       EncodeParts(tokenizer, parts, /*continues=*/!chat.ids.empty()));
      chat.ids.insert(chat.ids.end(), ids.begin(), ids.end());
      prefix.clear();
      parts.clear();
    }
    chat.message_ends.push_back(std::ssize(chat.ids));
  }
  chat.ids.insert(chat.ids.end(), state_->opening.begin(), state_->opening.end());
  return chat;
}

std::span<const int32_t> ChatTemplate::ends() const { return state_->ends; }
bool ChatTemplate::takes_system() const { return state_->format.takes_system; }
std::string_view ChatTemplate::name() const { return state_->format.name; }

}  // namespace recollect::model
