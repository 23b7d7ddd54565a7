// Counts of requests over HTTP by route and status, those that found no route included.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "base/metrics.h"
#include "base/numeric/histogram.h"
#include "base/sync/mutex.h"

namespace recollect::http {

// Thread-safe.
class RequestMetrics {
 public:
  void Begin();
  // Method and path of its route, or null. `http_status` 0: the client was gone before the whole
  // answer had been sent.
  void End(const char* method, const char* path, int http_status, absl::Duration elapsed);
  MetricFamilies Families() const;

 private:
  struct Of {
    std::map<int, int64_t> codes;
    HistogramValues seconds{kRequestSeconds};
  };

  mutable Mutex mutex_;
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  // By method and path. Bounded: routes are constants of this code.
  std::map<std::pair<std::string, std::string>, Of> routes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::http
