#include "http/api/generation_fields.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "http/api/fields.h"
#include "http/net/json.h"
#include "model/text/printable.h"

namespace recollect::http {
namespace {

using nlohmann::json;

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

absl::Status TakeStreamOptions(json& object, GenerationRequest& request) {
  const auto found = object.find("stream_options");
  if (found == object.end()) return absl::OkStatus();
  json options = std::move(*found);
  object.erase(found);
  if (options.is_null()) return absl::OkStatus();
  if (!options.is_object() || !request.stream) {
    return absl::InvalidArgumentError(
        "stream_options: must be an object, and only together with stream");
  }
  bool obfuscation = false;  // padding against who reads the lengths of encrypted events: not built
  RETURN_IF_ERROR(Take(options, "include_usage", "a boolean", request.include_usage));
  RETURN_IF_ERROR(Take(options, "include_obfuscation", "a boolean", obfuscation));
  if (options.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("stream_options: unknown field '", options.begin().key(), "'"));
}

}  // namespace

absl::Status TakeOutput(json& object, GenerationRequest& request) {
  RETURN_IF_ERROR(Take(object, "stream", "a boolean", request.stream));
  RETURN_IF_ERROR(Take(object, "retrievals", "a boolean", request.show_retrievals));
  request.generate.with_retrievals = request.show_retrievals;
  return TakeStreamOptions(object, request);
}

absl::Status TakeSampling(json& object, engine::GenerateRequest& generate) {
  engine::Sampling& sampling = generate.sampling;
  RETURN_IF_ERROR(TakeStop(object, generate.stop));
  RETURN_IF_ERROR(Take(object, "temperature", "a number", sampling.temperature));
  RETURN_IF_ERROR(Take(object, "top_p", "a number", sampling.top_p));
  RETURN_IF_ERROR(Take(object, "top_k", "an integer", sampling.top_k));
  RETURN_IF_ERROR(Take(object, "dry_multiplier", "a number", sampling.dry_multiplier));
  RETURN_IF_ERROR(Take(object, "dry_allowed_length", "an integer", sampling.dry_allowed_length));
  RETURN_IF_ERROR(Take(object, "ignore_eos", "a boolean", generate.ignore_eos));
  RETURN_IF_ERROR(Take(object, "stop_repetition", "a boolean", generate.stop_repetition));
  RETURN_IF_ERROR(Take(object, "quotes", "a boolean", generate.quotes));
  if (sampling.top_p == 0) {  // the likeliest tokens of no probability in all: the first
    sampling.top_p = 1;
    sampling.top_k = 1;
  }
  return TakeSeed(object, sampling.seed);
}

absl::Status TakeSaveAs(json& object, const access::Caller& caller,
                        engine::GenerateRequest& generate) {
  std::optional<std::string> id;
  bool replace = false;
  RETURN_IF_ERROR(Take(object, "save_as", "a string", id));
  RETURN_IF_ERROR(Take(object, "replace", "a boolean", replace));
  if (!id.has_value()) {
    return replace ? absl::InvalidArgumentError("replace: only together with save_as")
                   : absl::OkStatus();
  }
  RETURN_IF_ERROR(caller.CheckRight(access::Right::kFull, "save_as"));
  RETURN_IF_ERROR(caller.CheckDocument(*id));
  generate.save_as = {.id = *std::move(id), .replace = replace};
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MaxTokens(const char* field, int64_t asked) {
  RETURN_IF_ERROR(CheckRange<int64_t>(field, asked, -1, engine::kMaxAnswerTokens));
  return asked == -1 ? engine::kMaxAnswerTokens : asked;
}

absl::Status CheckLogprobs(const char* field, const GenerationRequest& request, int64_t choices) {
  constexpr int64_t kMax = 1 << 18;
  const int64_t top = request.generate.logprobs.value_or(0), tokens = request.generate.max_tokens;
  RETURN_IF_ERROR(CheckRange<int64_t>(field, top, 0, engine::kMaxTopLogprobs));
  if (request.stream || top <= 0 || tokens <= kMax / top / choices) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", top, " for each of ", tokens, " tokens",
                   choices > 1 ? absl::StrCat(" of ", choices, " prompts") : "", ", at most ", kMax,
                   " without stream"));
}

absl::Status RefuseUnbuilt(json& object, const char* name, const std::vector<json>& neutral) {
  const auto found = object.find(name);
  if (found == object.end()) return absl::OkStatus();
  if (found->is_null() || std::find(neutral.begin(), neutral.end(), *found) != neutral.end()) {
    object.erase(found);
    return absl::OkStatus();
  }
  constexpr size_t kMaxShownBytes = 64;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", model::Shortened(Dump(*found), kMaxShownBytes), ", only ",
                   neutral.empty() ? "null" : neutral.front().dump(), " is built here"));
}

absl::Status TakeIgnored(json& object) {
  std::string ignored;
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key"})
    RETURN_IF_ERROR(Take(object, name, "a string", ignored));
  return absl::OkStatus();
}

}  // namespace recollect::http
