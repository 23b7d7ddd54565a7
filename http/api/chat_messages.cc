#include "http/api/chat_messages.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "http/api/fields.h"
#include "http/api/generation_fields.h"
#include "model/text/printable.h"

namespace recollect::http {
namespace {

using nlohmann::json;

constexpr size_t kMaxShown = 64;

std::string Shown(const std::string& text) {
  return model::Shortened(model::EscapeInvisible(text), kMaxShown);
}

absl::Status TakeRole(json& message, ChatRole& role) {
  std::string name;
  RETURN_IF_ERROR(Take(message, "role", "a string", name));
  if (name.empty()) return absl::InvalidArgumentError("role: missing");
  if (name == "user") {
    role = ChatRole::kUser;
  } else if (name == "assistant") {
    role = ChatRole::kAssistant;
  } else if (name == "system" || name == "developer") {  // the newer name of the same
    role = ChatRole::kSystem;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "role: '", Shown(name), "', only system, developer, user and assistant are built here"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PartText(json part) {
  if (!part.is_object())
    return absl::InvalidArgumentError(absl::StrCat(": ", part.type_name(), ", expected an object"));
  std::string type, text;
  RETURN_IF_ERROR(Take(part, "type", "a string", type));
  if (type != "text") {
    return absl::InvalidArgumentError(
        absl::StrCat(".type: '", Shown(type), "', only 'text' is built here"));
  }
  if (!part.contains("text")) return absl::InvalidArgumentError(".text: missing");
  if (absl::Status status = Take(part, "text", "a string", text); !status.ok())
    return absl::InvalidArgumentError(absl::StrCat(".", status.message()));
  return text;
}

// A string, or parts of text, which stand on lines of their own.
absl::Status TakeContent(json& message, std::string& content) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null())
    return absl::InvalidArgumentError("content: missing");
  if (!found->is_array())
    return Take(message, "content", "a string or an array of parts of text", content);
  const json parts = std::move(*found);
  message.erase(found);
  std::vector<std::string> texts;
  for (const json& part : parts) {
    absl::StatusOr<std::string> text = PartText(part);
    if (!text.ok())
      return absl::InvalidArgumentError(
          absl::StrCat("content[", texts.size(), "]", text.status().message()));
    texts.push_back(*std::move(text));
  }
  content = absl::StrJoin(texts, "\n");
  return absl::OkStatus();
}

absl::Status TakeMessage(json& message, ChatMessage& out) {
  if (!message.is_object())
    return absl::InvalidArgumentError(absl::StrCat(message.type_name(), ", expected an object"));
  RETURN_IF_ERROR(TakeRole(message, out.role));
  RETURN_IF_ERROR(TakeContent(message, out.content));
  // An answer may have been empty, and clients send it back as part of the conversation.
  if (out.content.empty() && out.role == ChatRole::kUser)
    return absl::InvalidArgumentError("content: empty");
  // What clients send back of an answer: it has none of these.
  for (const char* name : {"tool_calls", "annotations"})
    RETURN_IF_ERROR(RefuseUnbuilt(message, name, {nullptr, json::array()}));
  for (const char* name : {"name", "refusal", "audio", "function_call", "tool_call_id"})
    RETURN_IF_ERROR(RefuseUnbuilt(message, name, {nullptr}));
  if (message.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Shown(message.begin().key()), ": unknown field"));
}

}  // namespace

absl::Status TakeMessages(json& object, std::vector<ChatMessage>& messages) {
  const auto found = object.find("messages");
  if (found == object.end() || found->is_null())
    return absl::InvalidArgumentError("messages: missing");
  if (!found->is_array()) {
    return absl::InvalidArgumentError(
        absl::StrCat("messages: ", found->type_name(), ", expected an array of messages"));
  }
  json array = std::move(*found);
  object.erase(found);
  if (array.empty()) return absl::InvalidArgumentError("messages: empty, needs at least one");
  for (json& message : array) {
    if (absl::Status status = TakeMessage(message, messages.emplace_back()); !status.ok()) {
      const bool field = message.is_object();
      return absl::InvalidArgumentError(absl::StrCat("messages[", messages.size() - 1, "]",
                                                     field ? "." : ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace recollect::http
