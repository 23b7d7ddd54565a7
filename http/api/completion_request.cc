#include "http/api/completion_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "http/api/fields.h"
#include "http/api/request_fields.h"
#include "http/api/saved_turn.h"

namespace recollect::http {

using nlohmann::json;

absl::StatusOr<CompletionRequest> DecodeCompletion(const std::string& body,
                                                   const ServerOptions& options,
                                                   const access::Caller& caller) {
  ASSIGN_OR_RETURN(json object, ParseObject(body));
  CompletionRequest request;
  engine::GenerateRequest& generate = request.generate;
  generate.max_tokens = 16;  // OpenAI's defaults
  generate.sampling.temperature = 1;
  generate.account = caller.account();
  RETURN_IF_ERROR(TakeModel(object, options));
  RETURN_IF_ERROR(TakePrompts(object, "prompt", request.prompts));
  RETURN_IF_ERROR(TakeSession(object, caller, generate.session_options));
  RETURN_IF_ERROR(TakeOutput(object, request));
  RETURN_IF_ERROR(TakeSampling(object, generate));
  RETURN_IF_ERROR(Take(object, "echo", "a boolean", request.echo));
  RETURN_IF_ERROR(Take(object, "logprobs", "an integer", generate.logprobs));
  RETURN_IF_ERROR(Take(object, "max_tokens", "an integer", generate.max_tokens));
  ASSIGN_OR_RETURN(generate.max_tokens, MaxTokens("max_tokens", generate.max_tokens));
  RETURN_IF_ERROR(CheckLogprobs("logprobs", request, std::ssize(request.prompts)));
  RETURN_IF_ERROR(TakeSaveAs(object, caller, generate));
  if (generate.save_as.has_value() && request.prompts.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("save_as: with ", request.prompts.size(), " prompts, expected one"));
  }
  const std::pair<const char*, json> unbuilt[] = {{"n", 1},
                                                  {"best_of", 1},
                                                  {"suffix", ""},
                                                  {"logit_bias", json::object()},
                                                  {"presence_penalty", 0},
                                                  {"frequency_penalty", 0}};
  for (const auto& [name, neutral] : unbuilt)
    RETURN_IF_ERROR(RefuseUnbuilt(object, name, {neutral}));
  RETURN_IF_ERROR(TakeIgnored(object));
  RETURN_IF_ERROR(RefuseRest(object));
  return request;
}

}  // namespace recollect::http
