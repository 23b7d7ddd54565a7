// The fields `save_as` and `replace` of completions and chat, and the member `saved` of answers: a
// conversation that is kept as a document, turn by turn.
#ifndef RECOLLECT_HTTP_API_SAVED_TURN_H_
#define RECOLLECT_HTTP_API_SAVED_TURN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "access/caller.h"
#include "engine/types.h"
#include "nlohmann/json.hpp"
#include "store/document_store.h"

namespace recollect::http {

// Takes both fields. INVALID_ARGUMENT: `replace` alone; PERMISSION_DENIED: `caller` may not ingest
// that document. The engine checks the rest. SaveAs::peer is for the caller to set.
absl::Status TakeSaveAs(nlohmann::json& object, const access::Caller& caller,
                        engine::GenerateRequest& generate);

// {"id", "tokens", "chunks", "bytes", "sha256"} of what was saved; else {"id", "error"}, as in the
// answers to requests that fail.
nlohmann::json EncodeSaved(const std::string& id,
                           const absl::StatusOr<store::DocumentInfo>& document);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_SAVED_TURN_H_
