// The engine's statistics and the numbers of the process as metrics.
#ifndef RECOLLECT_HTTP_METRICS_FAMILIES_H_
#define RECOLLECT_HTTP_METRICS_FAMILIES_H_

#include "base/io/process.h"
#include "base/metrics.h"
#include "engine/stats.h"

namespace recollect::http {

MetricFamilies EngineFamilies(const engine::EngineStats& stats);
// Under the names that Prometheus' own libraries give them.
MetricFamilies ProcessFamilies(const ProcessNumbers& numbers);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_METRICS_FAMILIES_H_
