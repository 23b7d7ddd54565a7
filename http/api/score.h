// POST /v1/score: the log probability of each token of a given text.
#ifndef RECOLLECT_HTTP_API_SCORE_H_
#define RECOLLECT_HTTP_API_SCORE_H_

#include <memory>

#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

void Score(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_SCORE_H_
