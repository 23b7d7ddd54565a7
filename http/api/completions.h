// POST /v1/completions.
#ifndef RECOLLECT_HTTP_API_COMPLETIONS_H_
#define RECOLLECT_HTTP_API_COMPLETIONS_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

// Answers now or from a thread of the engine. Tokenises.
void Complete(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_COMPLETIONS_H_
