// The description of this API in the form of OpenAPI 3.1, which GET /openapi.json serves. It is
// written by hand in the files of http/api, which together are one object:
// http/api/description/openapi.json has what all paths share, the others paths and schemas of one
// subject each. Only the engine's statistics come from their table (engine/stats.h).
#pragma once

#include <span>

#include "http/net/embedded_file.h"
#include "nlohmann/json.hpp"

namespace recollect::http {

// The files of http/api, http/api/description/openapi.json first.
std::span<const EmbeddedFile> ApiFiles();

// All files as one object, in their order, with the statistics. `info.version` is the release's to
// set.
const nlohmann::ordered_json& ApiDescription();

}  // namespace recollect::http
