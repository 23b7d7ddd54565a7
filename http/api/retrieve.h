// POST /v1/retrieve: the chunks that the model would read for a query.
#ifndef RECOLLECT_HTTP_API_RETRIEVE_H_
#define RECOLLECT_HTTP_API_RETRIEVE_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

void Retrieve(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_RETRIEVE_H_
