#include "http/net/request_metrics.h"

#include "absl/strings/str_cat.h"

namespace recollect::http {

void RequestMetrics::Begin() {
  MutexLock lock(mutex_);
  ++running_;
}

void RequestMetrics::End(const char* method, const char* path, int http_status,
                         absl::Duration elapsed) {
  // What strangers ask for must not become labels: there would be no end to them.
  constexpr const char* kOther = "other";
  MutexLock lock(mutex_);
  --running_;
  Of& of = routes_[{method == nullptr ? kOther : method, path == nullptr ? kOther : path}];
  ++of.codes[http_status];
  of.seconds.Add(absl::ToDoubleSeconds(elapsed));
}

MetricFamilies RequestMetrics::Families() const {
  MetricFamily finished{
      "recollect_http_requests_total",
      "Requests over HTTP that have ended, by route and status; code gone: the client was gone "
      "before it had the whole answer.",
      MetricType::kCounter,
      {}};
  MetricFamily seconds{
      "recollect_http_request_seconds",
      "Requests over HTTP that have ended, from the end of the head to the end of the answer.",
      MetricType::kHistogram,
      {}};
  MutexLock lock(mutex_);
  for (const auto& [route, of] : routes_) {
    const MetricLabels labels = {{"method", route.first}, {"path", route.second}};
    for (const auto& [code, count] : of.codes) {
      MetricLabels with_code = labels;
      with_code.emplace_back("code", code == 0 ? "gone" : absl::StrCat(code));
      finished.metrics.push_back({std::move(with_code), static_cast<double>(count), {}});
    }
    seconds.metrics.push_back({labels, 0, of.seconds});
  }
  return {std::move(finished),
          MakeGauge("recollect_http_requests_running", "Requests over HTTP that have not ended.",
                    static_cast<double>(running_)),
          std::move(seconds)};
}

}  // namespace recollect::http
