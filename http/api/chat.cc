#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/chat_message.h"
#include "base/status.h"
#include "http/api/choices.h"
#include "http/api/citations.h"
#include "http/api/fields.h"
#include "http/api/generation.h"
#include "http/api/handlers.h"
#include "http/api/request_fields.h"
#include "model/text/printable.h"

namespace recollect::http {
namespace {

using nlohmann::json;

constexpr size_t kMaxShown = 64;
// The default limit of tokens, for an answer that does not end by itself.
constexpr int64_t kDefaultAnswerTokens = 1024;

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

// Takes `messages`. INVALID_ARGUMENT names the message and its field, such as "messages[1].role": a
// role or a kind of content that is not built, no message, a message without content. In which
// order roles may come is the model's to say.
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

// OpenAI's API has two names for it; `max_tokens` is the older.
absl::Status TakeMaxTokens(json& object, int64_t& out) {
  std::optional<int64_t> older, newer;
  RETURN_IF_ERROR(Take(object, "max_tokens", "an integer", older));
  RETURN_IF_ERROR(Take(object, "max_completion_tokens", "an integer", newer));
  if (older.has_value() && newer.has_value() && *older != *newer) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_tokens: ", *older, ", but max_completion_tokens is ", *newer, ": they mean the same"));
  }
  ASSIGN_OR_RETURN(out, MaxTokens(newer.has_value() ? "max_completion_tokens" : "max_tokens",
                                  newer.value_or(older.value_or(kDefaultAnswerTokens))));
  return absl::OkStatus();
}

absl::Status TakeLogprobs(json& object, GenerationRequest& request) {
  bool logprobs = false;
  std::optional<int64_t> top;
  RETURN_IF_ERROR(Take(object, "logprobs", "a boolean", logprobs));
  RETURN_IF_ERROR(Take(object, "top_logprobs", "an integer", top));
  if (top.value_or(0) > 0 && !logprobs)
    return absl::InvalidArgumentError("top_logprobs: only together with logprobs");
  if (logprobs) request.generate.logprobs = top.value_or(0);
  return CheckLogprobs("top_logprobs", request);
}

// What OpenAI's API has besides, where it changes nothing.
absl::Status RefuseOtherFields(json& object) {
  const json none = json::array(), text = {{"type", "text"}};
  const std::pair<const char*, std::vector<json>> unbuilt[] = {
      {"n", {1}},
      {"tools", {none}},
      {"tool_choice", {"none", "auto"}},
      {"parallel_tool_calls", {true, false}},  // of no tools
      {"functions", {none}},
      {"function_call", {"none", "auto"}},
      {"response_format", {text}},
      {"modalities", {json(std::vector<std::string>{"text"})}},
      {"audio", {}},
      {"prediction", {}},
      {"logit_bias", {json::object()}},
      {"presence_penalty", {0}},
      {"frequency_penalty", {0}},
      {"reasoning_effort", {"none"}},
      {"verbosity", {"medium"}},
      {"service_tier", {"auto", "default"}},
      {"store", {false}},
      {"web_search_options", {}}};
  for (const auto& [name, neutral] : unbuilt) RETURN_IF_ERROR(RefuseUnbuilt(object, name, neutral));
  return absl::OkStatus();
}

// Decodes a request; `generate.prompt.messages` is the conversation. Retrievals are requested if
// documents are mounted, since the answer cites them. Errors as for DecodeCompletion
// (http/api/completions.cc); INVALID_ARGUMENT also names the message.
absl::StatusOr<GenerationRequest> DecodeChat(const std::string& body, const ServerOptions& options,
                                             const access::Caller& caller) {
  ASSIGN_OR_RETURN(json object, ParseObject(body));
  GenerationRequest request;
  engine::GenerateRequest& generate = request.generate;
  generate.sampling.temperature = 0;  // answers are about documents; OpenAI's default is 1
  generate.account = caller.account();
  RETURN_IF_ERROR(TakeModel(object, options));
  RETURN_IF_ERROR(TakeMessages(object, generate.prompt.messages));
  RETURN_IF_ERROR(TakeSession(object, caller, generate.session_options));
  RETURN_IF_ERROR(TakeOutput(object, request));
  RETURN_IF_ERROR(TakeSampling(object, generate));
  RETURN_IF_ERROR(TakeMaxTokens(object, generate.max_tokens));
  RETURN_IF_ERROR(TakeLogprobs(object, request));
  RETURN_IF_ERROR(TakeSaveAs(object, caller, generate));
  RETURN_IF_ERROR(RefuseOtherFields(object));
  object.erase("metadata");  // names that OpenAI's service keeps with an answer
  RETURN_IF_ERROR(TakeIgnored(object));
  RETURN_IF_ERROR(RefuseRest(object));
  if (!generate.session_options.mounts.empty()) generate.with_retrievals = true;
  return request;
}

class ChatAnswer final : public Generation {
 public:
  ChatAnswer(Runtime& runtime, GenerationRequest request, std::shared_ptr<Choices> choices)
      : Generation(runtime, std::move(request), std::move(choices), /*index=*/0) {}

  void OnTokens(const std::vector<int32_t>& tokens, const std::string& text) override {
    citations_.AnswerBegins();
    Generation::OnTokens(tokens, text);
  }
  void OnRetrieval(const engine::Retrieval& retrieval) override {
    citations_.Add(retrieval);
    Generation::OnRetrieval(retrieval);
  }

 private:
  json Opening() override {
    return {{"delta", {{"role", "assistant"}, {"content", ""}}}, {"logprobs", nullptr}};
  }
  json Further(const std::string& text) override {
    json delta = json::object();
    if (!text.empty()) delta["content"] = text;
    return {{"delta", std::move(delta)}, {"logprobs", TakeLogprobs()}};
  }
  json Whole(const std::string& text) override {
    return {{"message", {{"role", "assistant"}, {"content", text}}}, {"logprobs", TakeLogprobs()}};
  }
  json TakeLogprobs() { return logprobs().has_value() ? logprobs()->TakeContent() : json(nullptr); }

  bool Cites() const { return !request().generate.session_options.mounts.empty(); }
  bool EndsSlowly() const override { return Cites() || Generation::EndsSlowly(); }
  absl::Status AddToEnd(json& end, const engine::Usage& usage) override {
    if (usage.dropped_messages > 0) end["dropped_messages"] = usage.dropped_messages;
    if (!Cites()) return absl::OkStatus();
    if (const std::optional<float> nothing = citations_.nothing()) end["nothing"] = *nothing;
    ASSIGN_OR_RETURN(end["citations"], citations_.Encode(runtime().engine));
    return absl::OkStatus();
  }

  Citations citations_;
};

}  // namespace

absl::Status Chat(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer) {
  ASSIGN_OR_RETURN(GenerationRequest decoded,
                   DecodeChat(request.body, runtime.options, request.caller));
  if (decoded.generate.save_as.has_value()) decoded.generate.save_as->peer = request.peer;
  const Choices::Names names = {"chatcmpl", "chat.completion", "chat.completion.chunk"};
  const auto choices = std::make_shared<Choices>(
      runtime, names, Choices::Form{decoded.stream, decoded.include_usage}, /*count=*/1, answer);
  const auto chat = std::make_shared<ChatAnswer>(runtime, std::move(decoded), choices);
  return chat->Start();
}

}  // namespace recollect::http
