// The engine's statistics as metrics.
#ifndef RECOLLECT_HTTP_METRICS_ENGINE_METRICS_H_
#define RECOLLECT_HTTP_METRICS_ENGINE_METRICS_H_

#include "base/metrics.h"
#include "engine/stats.h"

namespace recollect::http {

MetricFamilies EngineFamilies(const engine::EngineStats& stats);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_METRICS_ENGINE_METRICS_H_
