// The fields that completions and chat share, as http/request_fields.h takes those of all requests.
#ifndef RECOLLECT_HTTP_GENERATION_FIELDS_H_
#define RECOLLECT_HTTP_GENERATION_FIELDS_H_

#include <vector>

#include "absl/status/status.h"
#include "engine/types.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// A request to generate, and how its answer is written.
struct GenerationRequest {
  engine::GenerateRequest generate;
  bool stream = false;         // as server-sent events
  bool include_usage = false;  // in a stream: an event of its own at the end
  bool show_retrievals = false;
};

// `stream`, `stream_options` and `retrievals`.
absl::Status TakeOutput(nlohmann::json& object, GenerationRequest& request);

// `temperature`, `top_p`, `top_k`, `seed`, `stop`, `ignore_eos` and DRY. A `top_p` of 0 is the
// likeliest token alone.
absl::Status TakeSampling(nlohmann::json& object, engine::GenerateRequest& generate);

// What a request means by `max_tokens`, of which -1 is as many as there may be.
int64_t MaxTokens(int64_t asked);

// A whole answer waits in memory until it is sent: refuses one with more log probabilities than
// some megabytes hold. `field`: where the request says how many there are for each token.
absl::Status CheckLogprobs(const char* field, const GenerationRequest& request,
                           int64_t choices = 1);

// Takes a field of OpenAI's API of which only the values that change nothing are built; null is one
// of them. The first of `neutral` is named where it has another.
absl::Status RefuseUnbuilt(nlohmann::json& object, const char* name,
                           const std::vector<nlohmann::json>& neutral);

// Takes `user` and what else says whose request it is, or how to keep it: of no use here.
absl::Status TakeIgnored(nlohmann::json& object);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_GENERATION_FIELDS_H_
