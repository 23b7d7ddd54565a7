// POST /v1/embeddings: texts as retrieval compares them.
#ifndef RECOLLECT_HTTP_API_EMBEDDINGS_H_
#define RECOLLECT_HTTP_API_EMBEDDINGS_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

void Embed(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_EMBEDDINGS_H_
