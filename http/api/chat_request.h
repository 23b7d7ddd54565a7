// Decodes requests of POST /v1/chat/completions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "http/api/generation_fields.h"
#include "http/options.h"

namespace recollect::http {

// The default limit of tokens, for an answer that does not end by itself.
inline constexpr int64_t kDefaultAnswerTokens = 1024;

// Decodes a request; `generate.prompt.messages` is the conversation. Retrievals are requested if
// documents are mounted, since the answer cites them. Errors as for DecodeCompletion
// (http/api/completions.cc); INVALID_ARGUMENT also names the message.
absl::StatusOr<GenerationRequest> DecodeChat(const std::string& body, const ServerOptions& options,
                                             const access::Caller& caller);

}  // namespace recollect::http
