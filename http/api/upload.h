// PUT /v1/documents/{}: a text of any length, read piece by piece as the engine takes it, whole or
// in parts that follow each other. POST /v1/documents/{}/append: likewise what goes on with a
// document, whole.
#ifndef RECOLLECT_HTTP_API_UPLOAD_H_
#define RECOLLECT_HTTP_API_UPLOAD_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

// The routes have to be such that take a stream.
void PutDocument(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);
void AppendToDocument(Runtime& runtime, const Request& request,
                      const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_UPLOAD_H_
