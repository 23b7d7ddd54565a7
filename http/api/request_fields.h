// Takes the fields that requests of several endpoints share. Each function removes its fields from
// the object, so that fields left at the end are unknown (RefuseRest). INVALID_ARGUMENT names the
// field; values are checked by the engine.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "access/caller.h"
#include "engine/types.h"
#include "http/options.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// Parses the body of a request. INVALID_ARGUMENT: it is not a JSON object in UTF-8, or is nested
// deeper than base/json.h allows.
absl::StatusOr<nlohmann::json> ParseObject(const std::string& body);

// Returns NOT_FOUND, naming both, if `name` is not the model that is served.
absl::Status CheckModel(const std::string& name, const ServerOptions& options);

// Takes `model`. Where it is given it must name the model that is served: another is NOT_FOUND.
absl::Status TakeModel(nlohmann::json& object, const ServerOptions& options);

// Takes a string, an array of token ids, or an array with one of these.
absl::Status TakePrompt(nlohmann::json& object, const char* name, engine::Prompt& prompt);

// Takes a string, an array of token ids, or an array of up to kMaxPrompts of either.
inline constexpr size_t kMaxPrompts = 256;
absl::Status TakePrompts(nlohmann::json& object, const char* name,
                         std::vector<engine::Prompt>& prompts);

// Takes `mounts`, which `caller` must be allowed to use, `mount_as`, `text_tokens` and the fields
// of the pattern.
absl::Status TakeSession(nlohmann::json& object, const access::Caller& caller,
                         engine::SessionOptions& session);

absl::Status RefuseRest(const nlohmann::json& object);

}  // namespace recollect::http
