#include "http/metrics/process_metrics.h"

namespace recollect::http {

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
