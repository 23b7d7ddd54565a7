// Metrics as GET /metrics writes them.
#pragma once

#include <string>

#include "base/metrics.h"

namespace recollect::http {

// In Prometheus' text format, version 0.0.4. REQUIRES: no two families have the same name.
std::string ToText(const MetricFamilies& families);

}  // namespace recollect::http
