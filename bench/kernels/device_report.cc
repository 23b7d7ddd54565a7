#include "bench/kernels/device_report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

namespace recollect::bench {

absl::StatusOr<Report> Report::Create(cudaStream_t stream, const std::string& commit,
                                      const std::string& json_path) {
  Report report;
  report.stream_ = stream;
  report.json_path_ = json_path;
  ASSIGN_OR_RETURN(report.ceilings_, MeasureDeviceCeilings(stream));
  const DeviceCeilings& ceilings = report.ceilings_;
  report.json_ = {{"device", DeviceName()},
                  {"driver", DriverName()},
                  {"commit", commit},
                  {"cache", "as the call before left it"},
                  {"copy_byte_per_s", ceilings.copy_bytes},
                  {"bf16_flop_per_s", ceilings.bf16_flops},
                  {"cases", nlohmann::json::array()}};
  std::printf("%s, driver %s, commit %s\n", DeviceName().c_str(), DriverName().c_str(),
              commit.c_str());
  std::printf("copy: %.0f GB/s, read and written; gemm: %.1f Tflop/s, bf16\n\n",
              ceilings.copy_bytes / 1e9, ceilings.bf16_flops / 1e12);
  std::printf("%-44s %-6s %10s %7s %4s %9s %6s %9s %6s %10s  %s\n", "case", "launch", "ms",
              "spread", "n", "GB/s", "copy", "Tflop/s", "gemm", "published", "target on an H200");
  return report;
}

void Report::Try(const Case& c, const std::function<absl::Status()>& bench) {
  const auto in_name = [&](const std::string& part) {
    return c.name.find(part) != std::string::npos;
  };
  if (!chosen_.empty() && std::none_of(chosen_.begin(), chosen_.end(), in_name)) return;
  const absl::Status status = bench();
  if (status.ok()) return;
  (void)cudaGetLastError();  // else the next case's launch would report it
  const bool no_room = absl::IsResourceExhausted(status);
  if (!no_room) ++failures_;
  const std::string result =
      absl::StrCat(no_room ? "out of memory: " : "FAILED: ", status.message());
  std::printf("%-44s %s\n", c.name.c_str(), result.c_str());
  json_["cases"].push_back({{"case", c.name}, {"result", result}});
  Write();
}

absl::Status Report::Measure(const Case& c, const Launch& launch,
                             const std::function<absl::Status()>& check, bool graph,
                             const Launch& reset) {
  const auto measure = [&](const char* how, const Launch& run) -> absl::Status {
    if (reset) RETURN_IF_ERROR(reset());
    RETURN_IF_ERROR(Synchronize());
    RETURN_IF_ERROR(run());
    RETURN_IF_ERROR(Synchronize());
    RETURN_IF_ERROR(check());
    ASSIGN_OR_RETURN(const DeviceTiming timing, TimeOnDevice(stream_, run));
    Add(c, how, timing);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(measure("stream", launch));
  if (!graph) return absl::OkStatus();
  ASSIGN_OR_RETURN(const kernels::CudaGraphExec captured, kernels::CaptureGraph(stream_, launch));
  return measure("graph", [&] {
    return kernels::CudaStatus(cudaGraphLaunch(captured.get(), stream_), "graph");
  });
}

void Report::AddByClock(const Case& c, int64_t parts, const DeviceTiming& timing,
                        const Beside& beside) {
  if (!std::exchange(by_clock_, true)) {
    std::printf("\n%-52s %10s %7s %4s %9s %9s %7s  %s\n", "by the wall clock", "us", "spread", "n",
                "us each", "GB/s", "speed", "of");
  }
  const double us = timing.median_ms * 1e3, each = us / static_cast<double>(parts);
  nlohmann::json row = {{"case", c.name},           {"result", "ok"},  {"parts", parts},
                        {"median_us", us},          {"us_each", each}, {"spread", timing.spread},
                        {"samples", timing.samples}};
  std::printf("%-52s %10.2f %6.1f%% %4d %9.2f", c.name.c_str(), us, timing.spread * 100,
              timing.samples, each);
  if (c.bytes > 0) {
    const double bytes = c.bytes / (timing.median_ms * 1e-3);
    std::printf(" %9.2f", bytes / 1e9);
    row["byte_per_s"] = bytes;
  } else {
    std::printf(" %9s", "-");
  }
  if (beside.ms > 0) {
    const double speed = beside.ms / timing.median_ms;
    std::printf(" %7.3f  %s", speed, beside.name.c_str());
    row["speed"] = speed;
    row["beside"] = beside.name;
  }
  std::printf("\n");
  json_["cases"].push_back(std::move(row));
  Write();
}

void Report::Add(const Case& c, const char* launch, const DeviceTiming& timing) {
  const double seconds = timing.median_ms * 1e-3;
  const double bytes = c.bytes / seconds, flops = c.flops / seconds;
  const double of_copy = bytes / ceilings_.copy_bytes, of_gemm = flops / ceilings_.bf16_flops;
  const std::string published = c.published_ms > 0 ? absl::StrCat(c.published_ms, " ms") : "-";
  std::printf("%-44s %-6s %10.4f %6.1f%% %4d %9.1f %5.1f%% %9.2f %5.1f%% %10s  %s\n",
              c.name.c_str(), launch, timing.median_ms, timing.spread * 100, timing.samples,
              bytes / 1e9, 100 * of_copy, flops / 1e12, 100 * of_gemm, published.c_str(),
              c.target.c_str());
  nlohmann::json row = {{"case", c.name},          {"result", "ok"},
                        {"launch", launch},        {"median_ms", timing.median_ms},
                        {"spread", timing.spread}, {"samples", timing.samples},
                        {"byte_per_s", bytes},     {"fraction_of_copy", of_copy},
                        {"flop_per_s", flops},     {"fraction_of_gemm", of_gemm}};
  if (!c.peer.empty()) row["peer"] = c.peer;
  if (c.published_ms > 0) row["published_ms"] = c.published_ms;
  if (!c.target.empty()) row["target"] = c.target;
  json_["cases"].push_back(std::move(row));
  Write();
}

void Report::Write() const {
  std::fflush(stdout);
  if (!json_path_.empty()) std::ofstream(json_path_) << json_.dump(1) << "\n";
}

}  // namespace recollect::bench
