#include "service/rpc_metrics.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace recollect::service {

void RpcMetrics::Start(const std::string& method) {
  MutexLock lock(mutex_);
  MethodMetrics& m = methods_[method];
  ++m.started;
  ++m.running;
}

void RpcMetrics::End(const std::string& method, absl::StatusCode code, absl::Duration elapsed) {
  MutexLock lock(mutex_);
  MethodMetrics& m = methods_[method];
  --m.running;
  ++m.codes[code];
  m.total += elapsed;
  m.max = std::max(m.max, elapsed);
  m.seconds.Add(absl::ToDoubleSeconds(elapsed));
  ended_.notify_all();
}

void RpcMetrics::AwaitAllBut(const std::string& method, absl::Time deadline) const {
  MutexLock lock(mutex_);
  const auto ended = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::all_of(methods_.begin(), methods_.end(), [&](const auto& entry) {
      return entry.first == method || entry.second.running == 0;
    });
  };
  const absl::Duration left = std::max(deadline - SteadyNow(), absl::ZeroDuration());
  if (left == absl::InfiniteDuration()) {
    ended_.wait(lock, ended);
  } else {
    ended_.wait_for(lock, absl::ToChronoMilliseconds(left), ended);
  }
}

std::map<std::string, MethodMetrics> RpcMetrics::Snapshot() const {
  MutexLock lock(mutex_);
  return methods_;
}

MetricFamilies RpcMetrics::Families() const {
  MetricFamily finished{"recollect_grpc_requests_total",
                        "Calls over gRPC that have ended, by method and status.",
                        MetricType::kCounter,
                        {}};
  MetricFamily running{"recollect_grpc_requests_running",
                       "Calls over gRPC that have not ended.",
                       MetricType::kGauge,
                       {}};
  MetricFamily seconds{"recollect_grpc_request_seconds",
                       "Calls over gRPC that have ended, from their arrival to their status.",
                       MetricType::kHistogram,
                       {}};
  for (const auto& [method, m] : Snapshot()) {
    for (const auto& [code, count] : m.codes) {
      finished.metrics.push_back({{{"method", method}, {"code", absl::StatusCodeToString(code)}},
                                  static_cast<double>(count),
                                  {}});
    }
    running.metrics.push_back({{{"method", method}}, static_cast<double>(m.running), {}});
    seconds.metrics.push_back({{{"method", method}}, 0, m.seconds});
  }
  return {std::move(finished), std::move(running), std::move(seconds)};
}

}  // namespace recollect::service
