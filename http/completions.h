// POST /v1/completions.
#ifndef RECOLLECT_HTTP_COMPLETIONS_H_
#define RECOLLECT_HTTP_COMPLETIONS_H_

#include <memory>

#include "engine/engine.h"
#include "http/exchange.h"
#include "http/server.h"

namespace recollect::http {

// Answers now or from a thread of the engine; does not block.
void Complete(engine::Engine& engine, const ServerOptions& options, const Request& request,
              const std::shared_ptr<Answer>& answer);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_COMPLETIONS_H_
