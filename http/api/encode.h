// Encodes results of the engine as JSON.
#pragma once

#include "engine/types.h"
#include "nlohmann/json.hpp"
#include "store/document.h"

namespace recollect::http {

// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details":
// {"cached_tokens"}}.
nlohmann::json Encode(const engine::Usage& usage);
// {"position", "group", "candidates", "hits": [{"document", "chunk", "begin", "end", "score",
// "weight", "tier"}]}, with a memory adapter also "nothing"; "begin" and "end" are byte offsets in
// the document's text.
nlohmann::json Encode(const engine::Retrieval& retrieval);
// A published document as answers show it.
nlohmann::json EncodeDocument(const store::DocumentInfo& info);

}  // namespace recollect::http
