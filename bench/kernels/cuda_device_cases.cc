#include "bench/kernels/cuda_device_cases.h"

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_operations.h"

namespace recollect::bench {
namespace {

using namespace recollect::kernels;

absl::Status Nothing() { return absl::OkStatus(); }

// The chunks one behind the other in pinned memory, and what one copy makes of them.
class PlainCopy {
 public:
  explicit PlainCopy(const ChunkUploads& uploads) : uploads_(uploads) {}

  absl::Status Allocate() {
    ASSIGN_OR_RETURN(pinned_, AllocatePinned(uploads_.bytes()));
    ASSIGN_OR_RETURN(to_, DeviceArray<char>::Create(uploads_.bytes(), "copy"));
    return absl::OkStatus();
  }
  absl::Status Fill() const {
    char* to = static_cast<char*>(pinned_.get());
    for (const std::vector<Bf16>& chunk : uploads_.chunks()) {
      std::memcpy(to, chunk.data(), chunk.size() * sizeof(Bf16));
      to += chunk.size() * sizeof(Bf16);
    }
    return absl::OkStatus();
  }
  absl::Status Run(cudaStream_t stream) const {
    RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(to_.get(), pinned_.get(), static_cast<size_t>(uploads_.bytes()),
                                   cudaMemcpyHostToDevice, stream),
                   "copy"));
    return Synchronize();
  }
  absl::Status Check() const {
    ASSIGN_OR_RETURN(const std::vector<char> found, Download(to_.get(), uploads_.bytes()));
    const char* at = found.data();
    for (const std::vector<Bf16>& chunk : uploads_.chunks()) {
      const size_t bytes = chunk.size() * sizeof(Bf16);
      if (std::memcmp(at, chunk.data(), bytes) != 0) {
        return absl::InternalError("WRONG ANSWER, pinned copy");
      }
      at += bytes;
    }
    return absl::OkStatus();
  }

 private:
  const ChunkUploads& uploads_;
  PinnedMemory pinned_;
  DeviceArray<char> to_;
};

}  // namespace

absl::Status OnDevice(Report& report, Device& device, Case c, const MakeCase& make, bool graph) {
  ASSIGN_OR_RETURN(CublasLt lt, CublasLt::Create());
  CudaGemms gemms(std::move(lt));
  ASSIGN_OR_RETURN(const DeviceCase made, make(device));
  c.bytes = made.bytes;
  c.flops = made.flops;
  // On the stream that the report's events are on: a device does not say its own.
  const auto queue = [&]() -> absl::Status {
    for (const Operation& operation : made.operations) {
      RETURN_IF_ERROR(Queue(report.stream(), gemms, operation));
    }
    return absl::OkStatus();
  };
  return report.Measure(c, queue, made.check, graph, made.reset);
}

absl::Status Uploads(Report& report, Device& device, const std::string& name, int64_t chunks,
                     int64_t numbers, double& link_bytes) {
  ChunkUploads uploads(device, chunks, numbers);
  PlainCopy plain(uploads);
  RETURN_IF_ERROR(plain.Allocate());
  const auto copy = [&] { return plain.Run(report.stream()); };
  const auto drop = [&] {
    uploads.Drop();
    return absl::OkStatus();
  };
  const auto upload = [&]() -> absl::Status {
    RETURN_IF_ERROR(uploads.Upload());
    RETURN_IF_ERROR(uploads.Await());
    return Synchronize();
  };
  RETURN_IF_ERROR(plain.Fill());
  RETURN_IF_ERROR(copy());
  RETURN_IF_ERROR(plain.Check());
  RETURN_IF_ERROR(upload());
  RETURN_IF_ERROR(uploads.Check());

  Case c;
  c.bytes = static_cast<double>(uploads.bytes());
  const auto add = [&](const char* hop, const DeviceTiming& timing, const Beside& beside) {
    c.name = absl::StrCat("upload, ", name, ": ", hop);
    report.AddByClock(c, chunks, timing, beside);
  };
  ASSIGN_OR_RETURN(const DeviceTiming copied, TimeByClock(Nothing, copy));
  const double link_ms = link_bytes > 0 ? c.bytes / link_bytes * 1e3 : 0;
  if (link_bytes == 0) link_bytes = c.bytes / (copied.median_ms * 1e-3);
  const Beside beside = {"one pinned copy of them", copied.median_ms};
  ASSIGN_OR_RETURN(const DeviceTiming filled, TimeByClock(Nothing, [&] { return plain.Fill(); }));
  add("host to pinned", filled, beside);
  add("pinned to device", copied, {"a long pinned copy", link_ms});
  ASSIGN_OR_RETURN(const DeviceTiming begun, TimeByClock(drop, [&] { return uploads.Upload(); }));
  add("UploadAllAsync returns", begun, beside);
  ASSIGN_OR_RETURN(const DeviceTiming uploaded, TimeByClock(drop, upload));
  add("UploadAllAsync and Await", uploaded, beside);
  return absl::OkStatus();
}

absl::Status Launches(Report& report, Device& device, int64_t count, int64_t width) {
  ASSIGN_OR_RETURN(const DeviceCase made, SmallOperationsCase(device, count, width));
  RETURN_IF_ERROR(RunAll(device, made.operations));  // loads the code, which a capture may not
  ASSIGN_OR_RETURN(const std::shared_ptr<DeviceGraph> graph, device.Capture(made.operations));
  Beside beside;
  const auto measure = [&](const char* how, const Launch& queue) -> absl::Status {
    const auto run = [&]() -> absl::Status {
      RETURN_IF_ERROR(queue());
      return Synchronize();
    };
    RETURN_IF_ERROR(made.reset());
    RETURN_IF_ERROR(run());
    RETURN_IF_ERROR(made.check());
    ASSIGN_OR_RETURN(const DeviceTiming timing, TimeByClock(Nothing, run));
    Case c;
    c.name = absl::StrCat(count, " operations on ", width, " floats, ", how);
    report.AddByClock(c, count, timing, beside);
    beside = {how, timing.median_ms};
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(measure("one by one", [&] { return RunAll(device, made.operations); }));
  return measure("as a graph", [&] { return device.Launch(*graph); });
}

}  // namespace recollect::bench
