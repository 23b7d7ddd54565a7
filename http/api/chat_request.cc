#include "http/api/chat_request.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "http/api/chat_messages.h"
#include "http/api/fields.h"
#include "http/api/request_fields.h"
#include "http/api/saved_turn.h"

namespace recollect::http {
namespace {

using nlohmann::json;

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

}  // namespace

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

}  // namespace recollect::http
