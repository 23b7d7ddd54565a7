#include "http/api/metrics.h"

#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "http/api/handlers.h"
#include "http/metrics/families.h"
#include "model/model.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"

namespace recollect::http {
namespace {

prometheus::ClientMetric::Histogram ToPrometheus(const HistogramValues& values) {
  prometheus::ClientMetric::Histogram out;
  for (size_t i = 0; i < values.counts.size(); ++i) {
    const bool last = i == values.bounds.size();
    out.sample_count += static_cast<uint64_t>(values.counts[i]);
    out.bucket.push_back(
        {out.sample_count, last ? std::numeric_limits<double>::infinity() : values.bounds[i]});
  }
  out.sample_sum = values.sum;
  return out;
}

prometheus::ClientMetric ToPrometheus(MetricType type, const Metric& metric) {
  prometheus::ClientMetric out;
  for (const auto& [name, value] : metric.labels) out.label.push_back({name, value});
  switch (type) {
    case MetricType::kCounter:
      out.counter.value = metric.value;
      break;
    case MetricType::kGauge:
      out.gauge.value = metric.value;
      break;
    case MetricType::kHistogram:
      out.histogram = ToPrometheus(metric.histogram);
      break;
  }
  return out;
}

prometheus::MetricType ToPrometheus(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return prometheus::MetricType::Counter;
    case MetricType::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricType::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

// What is no number: 1, with labels that say it.
MetricFamilies Names(const Runtime& runtime, const engine::EngineStats& stats) {
  MetricFamily build = MakeGauge("recollect_build_info", "1, with the program's version.", 1);
  build.metrics[0].labels = {{"version", runtime.options.version}};
  MetricFamily model = MakeGauge("recollect_model_info", "1, with what serves which model.", 1);
  model.metrics[0].labels = {{"model", runtime.options.model_name},
                             {"backend", stats.backend},
                             {"landmark_index", stats.landmark_index},
                             {"index", stats.index}};
  if (const model::Model* of = runtime.options.model; of != nullptr) {
    model.metrics[0].labels.emplace_back("architecture", of->config().architecture);
    model.metrics[0].labels.emplace_back("fingerprint", of->fingerprint());
  }
  return {std::move(build), std::move(model)};
}

MetricFamilies Connections(const Runtime& runtime) {
  return {MakeGauge("recollect_http_connections", "Connections over HTTP that are open.",
                    static_cast<double>(runtime.traffic.connections)),
          MakeGauge("recollect_http_connections_limit",
                    "The most connections over HTTP; one more is closed at once.",
                    runtime.options.max_connections)};
}

MetricFamilies Collect(const Runtime& runtime) {
  const engine::EngineStats stats = runtime.engine.stats();
  MetricFamilies all = {MakeGauge("recollect_ready", "1 where GET /readyz answers 200, else 0.",
                                  runtime.Ready().ok() ? 1 : 0)};
  const auto add = [&](MetricFamilies families) {
    std::move(families.begin(), families.end(), std::back_inserter(all));
  };
  add(Names(runtime, stats));
  add(EngineFamilies(stats));
  add(runtime.traffic.requests.Families());
  add(Connections(runtime));
  if (runtime.options.more_metrics != nullptr) add(runtime.options.more_metrics());
  add(ProcessFamilies(ReadProcess()));
  return all;
}

}  // namespace

std::string ToText(const MetricFamilies& families) {
  std::vector<prometheus::MetricFamily> out;
  for (const MetricFamily& family : families) {
    prometheus::MetricFamily& to = out.emplace_back();
    to.name = family.name;
    to.help = family.help;
    to.type = ToPrometheus(family.type);
    for (const Metric& metric : family.metrics)
      to.metric.push_back(ToPrometheus(family.type, metric));
  }
  return prometheus::TextSerializer().Serialize(out);
}

void Metrics(Runtime& runtime, const Request&, const std::shared_ptr<Answer>& answer) {
  answer->Send(200, "text/plain; version=0.0.4; charset=utf-8", ToText(Collect(runtime)));
}

}  // namespace recollect::http
