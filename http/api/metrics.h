// Metrics as GET /metrics writes them.
#ifndef RECOLLECT_HTTP_API_METRICS_H_
#define RECOLLECT_HTTP_API_METRICS_H_

#include <string>

#include "base/metrics.h"

namespace recollect::http {

// In Prometheus' text format, version 0.0.4. REQUIRES: no two families have the same name.
std::string ToText(const MetricFamilies& families);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_API_METRICS_H_
