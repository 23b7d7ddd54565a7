// Counts of every RPC by method and status, failures included. Exported by Admin/GetStats and by
// Server::metrics.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/metrics.h"
#include "base/numeric/histogram.h"
#include "base/sync/mutex.h"

namespace recollect::service {

struct MethodMetrics {
  int64_t started = 0;
  int64_t running = 0;
  std::map<absl::StatusCode, int64_t> codes;  // of finished calls
  absl::Duration total, max;                  // of finished calls
  HistogramValues seconds{kRequestSeconds};   // of finished calls
};

// Thread-safe.
class RpcMetrics {
 public:
  void Start(const std::string& method);
  void End(const std::string& method, absl::StatusCode code, absl::Duration elapsed);
  std::map<std::string, MethodMetrics> Snapshot() const;
  // Returns, for each method that was called, its running calls, its finished calls by status, and
  // their durations.
  MetricFamilies Families() const;
  // Waits until no call runs except those of `method`, or `deadline` has passed.
  void AwaitAllBut(const std::string& method, absl::Time deadline) const;

 private:
  mutable Mutex mutex_;
  mutable std::condition_variable ended_;
  // Bounded: methods are constants of this code.
  std::map<std::string, MethodMetrics> methods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recollect::service
