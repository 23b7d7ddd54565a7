// The rows of cuda_bench: a case's answer is checked, then it is timed, printed as a row of a table
// and written as JSON. A second table has what is timed by the wall clock, in µs.
#ifndef RECOLLECT_BENCH_KERNELS_DEVICE_REPORT_H_
#define RECOLLECT_BENCH_KERNELS_DEVICE_REPORT_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/kernels/device.h"

namespace recollect::bench {

struct Case {
  std::string name;         // "prefill, 262144 tokens, D 16"
  std::string peer = {};    // the case of sdpa.py to stand beside; empty: none
  double flops = 0;         // of one call
  double bytes = 0;         // that have to move, once each
  double published_ms = 0;  // 0: none
  std::string target = {};  // on an H200
};

// What a time is read against: how long something else takes for the same.
struct Beside {
  std::string name;  // "one pinned copy"
  double ms = 0;     // 0: nothing
};

class Report {
 public:
  // Measures the ceilings. `json_path` may be empty.
  static absl::StatusOr<Report> Create(cudaStream_t stream, const std::string& commit,
                                       const std::string& json_path);

  // From now on Try runs cases alone whose names have one of these in them; all, if there is none.
  void Choose(std::vector<std::string> parts) { chosen_ = std::move(parts); }

  // Runs `bench`, which makes ready what the case needs and calls Measure. What it returns instead
  // of OK is the case's row: out of memory, or a failure.
  void Try(const Case& c, const std::function<absl::Status()>& bench);

  // One call, its answer checked, then timed; with `graph` captured, checked and timed once more. A
  // row each. `reset`, where there is one, comes before a call that is checked.
  absl::Status Measure(const Case& c, const Launch& launch,
                       const std::function<absl::Status()>& check, bool graph = false,
                       const Launch& reset = nullptr);

  // A row of the second table: a time of `parts` calls or chunks by the wall clock, and its speed
  // as a multiple of that of `beside`.
  void AddByClock(const Case& c, int64_t parts, const DeviceTiming& timing, const Beside& beside);

  cudaStream_t stream() const { return stream_; }
  int failures() const { return failures_; }  // cases out of memory are none

 private:
  void Add(const Case& c, const char* launch, const DeviceTiming& timing);
  void Write() const;  // after each row: a case that hangs must not cost the others

  cudaStream_t stream_ = nullptr;
  DeviceCeilings ceilings_;
  std::vector<std::string> chosen_;
  int failures_ = 0;
  bool by_clock_ = false;  // the second table has begun
  std::string json_path_;
  nlohmann::json json_;
};

}  // namespace recollect::bench

#endif  // RECOLLECT_BENCH_KERNELS_DEVICE_REPORT_H_
