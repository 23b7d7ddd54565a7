#include "http/completion_request.h"

#include <random>
#include <utility>

#include "base/status.h"
#include "http/fields.h"
#include "http/json.h"
#include "http/request_fields.h"
#include "model/text/printable.h"

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
  constexpr size_t kMaxShown = 64;
  return absl::InvalidArgumentError(absl::StrCat(name, ": ",
                                                 model::Shortened(Dump(*found), kMaxShown),
                                                 ", only ", neutral.dump(), " is built here"));
}

absl::Status TakeStop(json& object, std::vector<std::string>& stop) {
  const auto found = object.find("stop");
  if (found != object.end() && found->is_string()) *found = json::array({*found});
  return Take(object, "stop", "a string or an array of strings", stop);
}

// OpenAI's may be negative, and the gRPC API's as large as 64 bits hold: each stands for its bits.
absl::Status TakeSeed(json& object, uint64_t& out) {
  const auto found = object.find("seed");
  if (found != object.end() && found->is_number_unsigned())
    return Take(object, "seed", "an integer", out);
  std::optional<int64_t> seed;
  RETURN_IF_ERROR(Take(object, "seed", "an integer", seed));
  out = seed.has_value() ? static_cast<uint64_t>(*seed) : uint64_t{std::random_device()()};
  return absl::OkStatus();
}

absl::Status TakeOutput(json& object, CompletionRequest& request) {
  RETURN_IF_ERROR(Take(object, "stream", "a boolean", request.stream));
  RETURN_IF_ERROR(Take(object, "echo", "a boolean", request.echo));
  RETURN_IF_ERROR(Take(object, "retrievals", "a boolean", request.generate.with_retrievals));
  RETURN_IF_ERROR(Take(object, "logprobs", "an integer", request.logprobs));
  if (request.logprobs.has_value()) {
    RETURN_IF_ERROR(CheckRange<int64_t>("logprobs", *request.logprobs, 0, engine::kMaxTopLogprobs));
  }
  request.generate.logprobs = request.logprobs;
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

// A whole answer waits in memory until it is sent.
absl::Status CheckSize(const CompletionRequest& request) {
  constexpr int64_t kMost = 1 << 18;
  const int64_t top = request.logprobs.value_or(0), tokens = request.generate.max_tokens;
  if (request.stream || top <= 0 || tokens <= kMost / top) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("logprobs: ", top, " for each of ", tokens,
                                                 " tokens, at most ", kMost,
                                                 " in all without stream"));
}

}  // namespace

absl::StatusOr<CompletionRequest> DecodeCompletion(const std::string& body,
                                                   const ServerOptions& options,
                                                   const access::Caller& caller) {
  ASSIGN_OR_RETURN(json object, ParseObject(body));
  CompletionRequest request;
  std::string user;
  RETURN_IF_ERROR(TakeModel(object, options, ModelField::kRequired));
  RETURN_IF_ERROR(Take(object, "user", "a string", user));  // of no use here
  engine::GenerateRequest& generate = request.generate;
  generate.max_tokens = 16;  // OpenAI's defaults
  generate.sampling.temperature = 1;
  RETURN_IF_ERROR(TakePrompt(object, "prompt", generate.prompt));
  RETURN_IF_ERROR(TakeStop(object, generate.stop));
  RETURN_IF_ERROR(TakeSession(object, caller, generate.session_options));
  RETURN_IF_ERROR(TakeOutput(object, request));
  RETURN_IF_ERROR(Take(object, "max_tokens", "an integer", generate.max_tokens));
  RETURN_IF_ERROR(CheckSize(request));
  RETURN_IF_ERROR(Take(object, "temperature", "a number", generate.sampling.temperature));
  RETURN_IF_ERROR(Take(object, "top_p", "a number", generate.sampling.top_p));
  RETURN_IF_ERROR(Take(object, "top_k", "an integer", generate.sampling.top_k));
  RETURN_IF_ERROR(Take(object, "ignore_eos", "a boolean", generate.ignore_eos));
  RETURN_IF_ERROR(TakeSeed(object, generate.sampling.seed));
  const std::pair<const char*, json> unbuilt[] = {{"n", 1},
                                                  {"best_of", 1},
                                                  {"suffix", ""},
                                                  {"logit_bias", json::object()},
                                                  {"presence_penalty", 0},
                                                  {"frequency_penalty", 0}};
  for (const auto& [name, neutral] : unbuilt) RETURN_IF_ERROR(RefuseUnbuilt(object, name, neutral));
  RETURN_IF_ERROR(RefuseRest(object));
  generate.account = caller.account();
  return request;
}

}  // namespace recollect::http
