#include "service/rpc_metrics.h"

#include <algorithm>

namespace recollect::service {

void RpcMetrics::Start(const std::string& method) {
  std::lock_guard lock(mutex_);
  MethodMetrics& m = methods_[method];
  ++m.started;
  ++m.running;
}

void RpcMetrics::End(const std::string& method, absl::StatusCode code, absl::Duration elapsed) {
  std::lock_guard lock(mutex_);
  MethodMetrics& m = methods_[method];
  --m.running;
  ++m.codes[code];
  m.total += elapsed;
  m.max = std::max(m.max, elapsed);
}

std::map<std::string, MethodMetrics> RpcMetrics::Snapshot() const {
  std::lock_guard lock(mutex_);
  return methods_;
}

}  // namespace recollect::service
