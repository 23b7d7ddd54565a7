// GET /v1/documents/{}/export and PUT /v1/documents/{}/import: a document as the file of `recollect
// docs export`, piece by piece.
#ifndef RECOLLECT_HTTP_API_TRANSFER_H_
#define RECOLLECT_HTTP_API_TRANSFER_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

void ExportDocument(Runtime& runtime, const Request& request,
                    const std::shared_ptr<Answer>& answer);

// The route has to be one that takes a stream.
void ImportDocument(Runtime& runtime, const Request& request,
                    const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_TRANSFER_H_
