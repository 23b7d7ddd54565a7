// Times a function until it has run long enough, and measures how steady the machine was. The clock
// is the thread's own CPU time: the kernels are serial, so other work on the machine disturbs only
// the caches and memory that it shares.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <vector>

namespace recollect::bench {

struct Timing {
  double median_s = 0;
  double spread = 0;  // (third quartile - first) / median
};

inline double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Calls `run` twice, to warm up and to estimate its time, then takes `samples` samples of about
// `sample_s` seconds each.
template <typename Function>
Timing Measure(Function&& run, int samples = 15, double sample_s = 0.01) {
  run();
  const double before = ThreadSeconds();
  run();
  const double once = std::max(ThreadSeconds() - before, 1e-8);
  const auto repeats = static_cast<int64_t>(std::max(1.0, std::ceil(sample_s / once)));
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) {
    const double begin = ThreadSeconds();
    for (int64_t r = 0; r < repeats; ++r) run();
    times.push_back((ThreadSeconds() - begin) / static_cast<double>(repeats));
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  return {median, (times[times.size() * 3 / 4] - times[times.size() / 4]) / median};
}

}  // namespace recollect::bench
