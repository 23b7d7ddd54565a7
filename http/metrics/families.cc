#include "http/metrics/families.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"

namespace recollect::http {
namespace {

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

}  // namespace

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

}  // namespace recollect::http
