// What POST /v1/completions asks for.
#ifndef RECOLLECT_HTTP_COMPLETION_REQUEST_H_
#define RECOLLECT_HTTP_COMPLETION_REQUEST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "http/generation_fields.h"
#include "http/server.h"

namespace recollect::http {

// Each prompt is answered as if it had been sent alone.
struct CompletionRequest : GenerationRequest {
  std::vector<engine::Prompt> prompts;  // those of `generate`, in place of its own
  bool echo = false;                    // the prompt comes before the answer
};

// INVALID_ARGUMENT names a field of the wrong type, one that is not known, and one that OpenAI's
// API has and this one has not. NOT_FOUND: another model. PERMISSION_DENIED: a mount that `caller`
// may not use. Values are checked by the engine.
absl::StatusOr<CompletionRequest> DecodeCompletion(const std::string& body,
                                                   const ServerOptions& options,
                                                   const access::Caller& caller);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_COMPLETION_REQUEST_H_
