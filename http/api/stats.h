// GET /v1/stats: the engine's statistics, and what the model is, as one JSON object.
#ifndef RECOLLECT_HTTP_API_STATS_H_
#define RECOLLECT_HTTP_API_STATS_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

void Stats(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_STATS_H_
