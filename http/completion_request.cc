#include "http/completion_request.h"

#include <random>
#include <utility>

#include "base/status.h"
#include "http/fields.h"

namespace recollect::http {
namespace {

using nlohmann::json;

// A field of OpenAI's API of which only the value that changes nothing is built.
absl::Status RefuseUnbuilt(json& object, const char* name, const json& neutral) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  if (found->is_null() || *found == neutral) {
    object.erase(found);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": only ", neutral.dump(), " is built here"));
}

// A string, an array of token ids, or an array of one of these.
absl::Status TakePrompt(json& object, engine::Prompt& prompt) {
  const auto found = object.find("prompt");
  if (found == object.end()) return absl::InvalidArgumentError("prompt: missing");
  const bool wrapped = found->is_array() && !found->empty() && !found->front().is_number();
  if (wrapped && found->size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt: ", found->size(), " prompts, only 1 is built here"));
  }
  if (wrapped) *found = json(found->front());
  constexpr char kExpected[] = "a string or an array of token ids";
  if (found->is_array()) return Take(object, "prompt", kExpected, prompt.tokens);
  return Take(object, "prompt", kExpected, prompt.text);
}

absl::Status TakeStop(json& object, std::vector<std::string>& stop) {
  const auto found = object.find("stop");
  if (found != object.end() && found->is_string()) *found = json::array({*found});
  return Take(object, "stop", "a string or an array of strings", stop);
}

absl::Status TakeSession(json& object, const access::Caller& caller,
                         engine::SessionOptions& session) {
  RETURN_IF_ERROR(Take(object, "mounts", "an array of document ids", session.mounts));
  RETURN_IF_ERROR(caller.CheckDocuments(session.mounts));
  RETURN_IF_ERROR(Take(object, "dilation", "an integer", session.dilation));
  RETURN_IF_ERROR(Take(object, "window", "an integer", session.window));
  RETURN_IF_ERROR(Take(object, "initial", "an integer", session.initial));
  constexpr char kLayers[] = "an array of arrays of integers";
  RETURN_IF_ERROR(Take(object, "layer_dilations", kLayers, session.layer_dilations));
  RETURN_IF_ERROR(Take(object, "layer_windows", kLayers, session.layer_windows));
  RETURN_IF_ERROR(Take(object, "layer_initials", kLayers, session.layer_initials));
  RETURN_IF_ERROR(Take(object, "context", "an integer", session.context));
  RETURN_IF_ERROR(Take(object, "top_k_blocks", "an integer", session.top_k_blocks));
  return Take(object, "random_chunks", "a boolean", session.random_chunks);
}

absl::Status TakeOutput(json& object, CompletionRequest& request) {
  RETURN_IF_ERROR(Take(object, "stream", "a boolean", request.stream));
  RETURN_IF_ERROR(Take(object, "echo", "a boolean", request.echo));
  std::optional<int64_t> logprobs;
  RETURN_IF_ERROR(Take(object, "logprobs", "an integer", logprobs));
  request.logprobs = logprobs.has_value();
  if (logprobs.value_or(0) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("logprobs: ", *logprobs, ", only 0, the chosen tokens' own, is built here"));
  }
  if (request.logprobs && request.stream)
    return absl::InvalidArgumentError("logprobs: not built together with stream");
  const auto found = object.find("stream_options");
  if (found == object.end()) return absl::OkStatus();
  json stream = std::move(*found);
  object.erase(found);
  if (stream.is_null()) return absl::OkStatus();
  if (!stream.is_object() || !request.stream) {
    return absl::InvalidArgumentError(
        "stream_options: must be an object, and only together with stream");
  }
  RETURN_IF_ERROR(Take(stream, "include_usage", "a boolean", request.include_usage));
  if (stream.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("stream_options: unknown field '", stream.begin().key(), "'"));
}

}  // namespace

absl::StatusOr<CompletionRequest> DecodeCompletion(const std::string& body,
                                                   const ServerOptions& options,
                                                   const access::Caller& caller) {
  json object = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return absl::InvalidArgumentError("the body is not JSON in UTF-8");
  if (!object.is_object())
    return absl::InvalidArgumentError(
        absl::StrCat("the body is a JSON ", object.type_name(), ", expected an object"));
  CompletionRequest request;
  std::string model, user;
  RETURN_IF_ERROR(Take(object, "model", "a string", model));
  if (model.empty()) return absl::InvalidArgumentError("model: missing");
  if (model != options.model_name) {
    return absl::NotFoundError(
        absl::StrCat("model: '", model, "', here is only '", options.model_name, "'"));
  }
  RETURN_IF_ERROR(Take(object, "user", "a string", user));  // of no use here
  engine::GenerateRequest& generate = request.generate;
  generate.max_tokens = 16;  // OpenAI's defaults
  generate.sampling.temperature = 1;
  RETURN_IF_ERROR(TakePrompt(object, generate.prompt));
  RETURN_IF_ERROR(TakeStop(object, generate.stop));
  RETURN_IF_ERROR(TakeSession(object, caller, generate.session_options));
  RETURN_IF_ERROR(TakeOutput(object, request));
  RETURN_IF_ERROR(Take(object, "max_tokens", "an integer", generate.max_tokens));
  RETURN_IF_ERROR(Take(object, "temperature", "a number", generate.sampling.temperature));
  RETURN_IF_ERROR(Take(object, "top_p", "a number", generate.sampling.top_p));
  RETURN_IF_ERROR(Take(object, "top_k", "an integer", generate.sampling.top_k));
  RETURN_IF_ERROR(Take(object, "ignore_eos", "a boolean", generate.ignore_eos));
  std::optional<int64_t> seed;
  RETURN_IF_ERROR(Take(object, "seed", "an integer", seed));
  generate.sampling.seed =
      seed.has_value() ? static_cast<uint64_t>(*seed) : uint64_t{std::random_device()()};
  const std::pair<const char*, json> unbuilt[] = {{"n", 1},
                                                  {"best_of", 1},
                                                  {"suffix", ""},
                                                  {"logit_bias", json::object()},
                                                  {"presence_penalty", 0},
                                                  {"frequency_penalty", 0}};
  for (const auto& [name, neutral] : unbuilt) RETURN_IF_ERROR(RefuseUnbuilt(object, name, neutral));
  if (object.empty()) return request;
  return absl::InvalidArgumentError(
      absl::StrCat("unrecognized request argument: '", object.begin().key(), "'"));
}

}  // namespace recollect::http
