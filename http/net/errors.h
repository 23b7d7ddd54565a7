// Errors as OpenAI's API words them: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "http/net/exchange.h"

namespace recollect::http {

int HttpStatus(absl::StatusCode code);
// `param` is what the message names at its beginning, if that is the name of a field.
// `http_status`, which decides on the type: 0, that of the code.
std::string ErrorJson(const absl::Status& status, int http_status = 0);
// `headers` as in Answer::Send. Adds Retry-After to 429 and 503: what the status says
// (access/account.h), else a second.
void SendError(Answer& answer, const absl::Status& status, std::string headers = "",
               int http_status = 0);

}  // namespace recollect::http
