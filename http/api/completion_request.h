// Decodes requests of POST /v1/completions.
#ifndef RECOLLECT_HTTP_API_COMPLETION_REQUEST_H_
#define RECOLLECT_HTTP_API_COMPLETION_REQUEST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "http/api/generation_fields.h"
#include "http/options.h"

namespace recollect::http {

// Each prompt is answered as if it had been sent alone.
struct CompletionRequest : GenerationRequest {
  std::vector<engine::Prompt> prompts;  // each replaces `generate.prompt`
  bool echo = false;                    // the prompt comes before the answer
};

// Decodes a request. INVALID_ARGUMENT names a field that has the wrong type, is unknown, or is in
// OpenAI's API but not in this one. NOT_FOUND: another model. PERMISSION_DENIED: a mount that
// `caller` may not use. Values are checked by the engine.
absl::StatusOr<CompletionRequest> DecodeCompletion(const std::string& body,
                                                   const ServerOptions& options,
                                                   const access::Caller& caller);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_COMPLETION_REQUEST_H_
