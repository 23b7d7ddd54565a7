// Metrics of the process, under the names that Prometheus' own libraries give them.
#ifndef RECOLLECT_HTTP_METRICS_PROCESS_METRICS_H_
#define RECOLLECT_HTTP_METRICS_PROCESS_METRICS_H_

#include "base/io/process.h"
#include "base/metrics.h"

namespace recollect::http {

MetricFamilies ProcessFamilies(const ProcessNumbers& numbers);

}  // namespace recollect::http

#endif  // RECOLLECT_HTTP_METRICS_PROCESS_METRICS_H_
