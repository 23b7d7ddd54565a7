#include "http/api/metrics.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/io/process.h"
#include "engine/stats.h"
#include "http/api/handlers.h"
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

// Of the values only that of the family's type is written.
prometheus::ClientMetric ToPrometheus(const Metric& metric) {
  prometheus::ClientMetric out;
  for (const auto& [name, value] : metric.labels) out.label.push_back({name, value});
  out.counter.value = out.gauge.value = metric.value;
  out.histogram = ToPrometheus(metric.histogram);
  return out;
}

using engine::EngineStats;
using engine::Statistic;

// Adds a metric to the family of its name, which it makes if it is the first.
void AddMetric(const Statistic& statistic, MetricType type, Metric metric,
               MetricFamilies& families) {
  const std::string_view name = statistic.metric;
  const char* help = statistic.help;
  if (statistic.label != nullptr) {
    const auto* of_all = std::ranges::find(engine::kLabels, name, &engine::MetricLabel::metric);
    RECOLLECT_CHECK(of_all != std::end(engine::kLabels));
    metric.labels = {{of_all->label, statistic.label}};
    help = of_all->help;
  }
  auto family = std::ranges::find(families, name, &MetricFamily::name);
  if (family == families.end())
    family = families.insert(family, {statistic.metric, help, type, {}});
  family->metrics.push_back(std::move(metric));
}

MetricFamily Tables(const EngineStats& stats) {
  MetricFamily family{"recollect_store_table_bytes",
                      "Tables on disk by what they hold; none where the store is in memory.",
                      MetricType::kGauge,
                      {}};
  for (const auto& [holds, bytes] : stats.store_table_bytes)
    family.metrics.push_back({{{"family", holds}}, static_cast<double>(bytes), {}});
  return family;
}

MetricFamilies EngineFamilies(const EngineStats& stats) {
  MetricFamilies families;
  for (const Statistic& statistic : engine::kStatistics) {
    if (statistic.metric == nullptr) continue;
    std::visit(
        [&](auto member) {
          const auto& value = stats.*member;
          using Value = std::remove_cvref_t<decltype(value)>;
          if constexpr (std::is_same_v<Value, HistogramValues>) {
            AddMetric(statistic, MetricType::kHistogram, {{}, 0, value}, families);
          } else if constexpr (!std::is_same_v<Value, std::string>) {
            const bool counts = std::is_same_v<Value, engine::Count>;
            AddMetric(statistic, counts ? MetricType::kCounter : MetricType::kGauge,
                      {{}, static_cast<double>(value), {}}, families);
          }
        },
        statistic.member);
  }
  families.push_back(Tables(stats));
  return families;
}

// Under the names that Prometheus' own libraries give them.
MetricFamilies ProcessFamilies(const ProcessNumbers& numbers) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  return {
      MakeCounter("process_cpu_seconds_total", "CPU time of all threads.", numbers.cpu_s),
      MakeGauge("process_resident_memory_bytes", "Memory that is resident.",
                number(numbers.resident_bytes)),
      MakeGauge("process_virtual_memory_bytes", "Address space that is mapped.",
                number(numbers.virtual_bytes)),
      MakeGauge("process_start_time_seconds", "When the process started, since 1970.",
                numbers.start_unix_s),
      MakeGauge("process_threads", "Threads.", number(numbers.threads)),
      MakeGauge("process_open_fds", "Descriptors that are open.", number(numbers.open_files)),
      MakeGauge("process_max_fds", "The most descriptors (ulimit -n).", number(numbers.max_files)),
  };
}

// What is no number: 1, with labels that say it.
MetricFamilies Names(const Runtime& runtime, const EngineStats& stats) {
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
  const EngineStats stats = runtime.engine.stats();
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
    to.type = family.type == MetricType::kCounter ? prometheus::MetricType::Counter
              : family.type == MetricType::kGauge ? prometheus::MetricType::Gauge
                                                  : prometheus::MetricType::Histogram;
    for (const Metric& metric : family.metrics) to.metric.push_back(ToPrometheus(metric));
  }
  return prometheus::TextSerializer().Serialize(out);
}

absl::Status Metrics(Runtime& runtime, const Request&, const std::shared_ptr<Answer>& answer) {
  answer->Send(200, "text/plain; version=0.0.4; charset=utf-8", ToText(Collect(runtime)));
  return absl::OkStatus();
}

}  // namespace recollect::http
