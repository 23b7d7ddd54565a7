// What POST /v1/chat/completions asks for.
#ifndef RECOLLECT_HTTP_CHAT_REQUEST_H_
#define RECOLLECT_HTTP_CHAT_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "http/generation_fields.h"
#include "http/server.h"

namespace recollect::http {

// An answer ends by itself; this is for one that does not.
inline constexpr int64_t kDefaultAnswerTokens = 1024;

// `generate.prompt.messages` is the conversation. Retrievals are asked for where documents are
// mounted, since an answer cites them. Errors as of DecodeCompletion (http/completion_request.h);
// INVALID_ARGUMENT also names the message.
absl::StatusOr<GenerationRequest> DecodeChat(const std::string& body, const ServerOptions& options,
                                             const access::Caller& caller);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_CHAT_REQUEST_H_
