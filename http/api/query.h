// The parameters behind '?' of a request's path, each with its type checked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "engine/types.h"

namespace recollect::http {

using Query = std::map<std::string, std::string>;

// Take a parameter out of `query` and into `out`, which keeps its value where there is none.
// INVALID_ARGUMENT naming parameter and value.
absl::Status Take(Query& query, const char* name, std::string& out);
absl::Status Take(Query& query, const char* name, std::optional<int64_t>& out);

// Takes the pattern of a prefix: dilation, window and initial, each one number or several
// (engine/layer_numbers.h), context and top_k_blocks.
absl::Status TakePattern(Query& query, engine::SessionOptions& session);

// The engine's answer to a pattern that TakePattern has taken, with the parameter in place of the
// engine's field: "dilation: …" for "layer_dilations: …".
absl::Status NamedAsInQuery(const absl::Status& status);

// INVALID_ARGUMENT naming a parameter that nothing has taken.
absl::Status RefuseOthers(const Query& query);

}  // namespace recollect::http
