// Metrics as whoever measures hands them over: by name, with help and labels, in base units. Only
// http/api/metrics.cc knows how they are written out. Names: docs/metrics.md.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/numeric/histogram.h"

namespace recollect {

enum class MetricType { kCounter, kGauge, kHistogram };

using MetricLabels = std::vector<std::pair<std::string, std::string>>;  // name, value

struct Metric {
  MetricLabels labels;
  double value = 0;           // of a counter or gauge
  HistogramValues histogram;  // of a histogram
};

// All metrics of one name. No two have the same labels.
struct MetricFamily {
  std::string name, help;
  MetricType type = MetricType::kGauge;
  std::vector<Metric> metrics;  // empty: nothing has happened yet that would have labels
};
using MetricFamilies = std::vector<MetricFamily>;

// With one metric, without labels.
inline MetricFamily MakeCounter(std::string name, std::string help, double value) {
  return {std::move(name), std::move(help), MetricType::kCounter, {{{}, value, {}}}};
}
inline MetricFamily MakeGauge(std::string name, std::string help, double value) {
  return {std::move(name), std::move(help), MetricType::kGauge, {{{}, value, {}}}};
}

}  // namespace recollect
