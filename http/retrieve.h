// POST /v1/retrieve: the chunks that the model would read for a query.
#ifndef RECOLLECT_HTTP_RETRIEVE_H_
#define RECOLLECT_HTTP_RETRIEVE_H_

#include <memory>

#include "http/exchange.h"
#include "http/runtime.h"

namespace recollect::http {

void Retrieve(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_RETRIEVE_H_
