// The rows of cuda_bench: checks a case's answer, then times the case, prints it as a row of a
// table and writes it as JSON. A second table has the times by the wall clock, in µs.
#pragma once

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

// A time to compare with: how long something else takes for the same work.
struct Beside {
  std::string name;  // "one pinned copy"
  double ms = 0;     // 0: nothing
};

class Report {
 public:
  // Measures the ceilings. `json_path` may be empty.
  static absl::StatusOr<Report> Create(cudaStream_t stream, const std::string& commit,
                                       const std::string& json_path);

  // From now on Try runs only cases whose names contain one of these parts; all cases if there are
  // none.
  void Choose(std::vector<std::string> parts) { chosen_ = std::move(parts); }

  // Runs `bench`, which prepares what the case needs and calls Measure. An error that it returns
  // becomes the case's row: out of memory, or a failure.
  void Try(const Case& c, const std::function<absl::Status()>& bench);

  // Runs one call, checks its answer, then times it; with `graph`, captures it and does the same
  // with the graph. Each adds a row. `reset`, if any, runs before a call that is checked.
  absl::Status Measure(const Case& c, const Launch& launch,
                       const std::function<absl::Status()>& check, bool graph = false,
                       const Launch& reset = nullptr);

  // Adds a row to the second table: a time of `parts` calls or chunks by the wall clock, and its
  // speed as a multiple of that of `beside`.
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
