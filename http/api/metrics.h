// GET /metrics: everything that is measured, as Prometheus reads it (docs/metrics.md).
#ifndef RECOLLECT_HTTP_API_METRICS_H_
#define RECOLLECT_HTTP_API_METRICS_H_

#include <memory>
#include <string>

#include "base/metrics.h"
#include "http/api/runtime.h"
#include "http/net/exchange.h"

namespace recollect::http {

void Metrics(Runtime& runtime, const Request& request, const std::shared_ptr<Answer>& answer);

// In Prometheus' text format, version 0.0.4. REQUIRES: no two families have the same name.
std::string ToText(const MetricFamilies& families);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_METRICS_H_
