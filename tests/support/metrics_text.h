// Parses Prometheus' text format, version 0.0.4, and reports what breaks its rules or those of good
// names, so that tests need no promtool.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace recollect {

struct MetricsText {
  struct Family {
    std::string help, type;
    // Samples by name and labels as written: "a_bucket{le=\"1\"}".
    std::map<std::string, double> samples;
  };

  std::map<std::string, Family> families;
  std::vector<std::string> problems;

  // Returns the value of the sample, -1 if there is none.
  double value(const std::string& sample) const;
  // Returns the names under which a query finds samples: for a histogram, with _bucket, _sum and
  // _count.
  std::vector<std::string> series() const;
};

MetricsText ParseMetrics(const std::string& text);

}  // namespace recollect
