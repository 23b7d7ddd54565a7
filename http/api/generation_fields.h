// Takes the fields that completions and chat share, as http/api/request_fields.h does for all
// requests.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "access/caller.h"
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

// Takes `stream`, `stream_options` and `retrievals`.
absl::Status TakeOutput(nlohmann::json& object, GenerationRequest& request);

// Takes `temperature`, `top_p`, `top_k`, `seed`, `stop`, `ignore_eos`, `stop_repetition`, `quotes`
// and the fields of DRY. A `top_p` of 0 means the likeliest token alone.
absl::Status TakeSampling(nlohmann::json& object, engine::GenerateRequest& generate);

// Takes `save_as` and `replace`: a conversation is kept as a document, turn by turn.
// INVALID_ARGUMENT: `replace` alone; PERMISSION_DENIED: `caller` may not ingest that document. The
// engine checks the rest. SaveAs::peer is for the caller to set.
absl::Status TakeSaveAs(nlohmann::json& object, const access::Caller& caller,
                        engine::GenerateRequest& generate);

// Returns the limit that a request's `field` means; -1: the largest that is allowed.
absl::StatusOr<int64_t> MaxTokens(const char* field, int64_t asked);

// Refuses a whole answer, which waits in memory until it is sent, with more log probabilities than
// some megabytes hold. `field`: the field with their number for each token.
absl::Status CheckLogprobs(const char* field, const GenerationRequest& request,
                           int64_t choices = 1);

// Takes a field of OpenAI's API that is supported only with values that change nothing: null and
// `neutral`. INVALID_ARGUMENT for any other value names the first of `neutral`.
absl::Status RefuseUnbuilt(nlohmann::json& object, const char* name,
                           const std::vector<nlohmann::json>& neutral);

// Takes and ignores `user` and other fields that say whose request it is, or how to cache it.
absl::Status TakeIgnored(nlohmann::json& object);

}  // namespace recollect::http
