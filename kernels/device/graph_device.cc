#include "kernels/device/graph_device.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/io/log.h"
#include "base/status.h"

namespace recollect::kernels {

GraphDevice::GraphDevice(Device& device, int max_graphs)
    : device_(device), max_graphs_(static_cast<size_t>(max_graphs)) {}

GraphDevice::~GraphDevice() = default;

absl::Status GraphDevice::Record(absl::FunctionRef<absl::Status()> operations) {
  RECOLLECT_CHECK(!recording_ && recorded_.empty());
  recording_ = max_graphs_ > 0;
  absl::Status status = operations();
  recording_ = false;
  if (status.ok()) return RunRecorded();
  recorded_.clear();
  return status;
}

absl::Status GraphDevice::RunRecorded() {
  if (recorded_.empty()) return absl::OkStatus();
  const auto same = [&](const Known& known) { return known.operations == recorded_; };
  const auto found = std::find_if(known_.begin(), known_.end(), same);
  if (found == known_.end()) {
    known_.push_front({std::exchange(recorded_, {}), nullptr});
    if (known_.size() > max_graphs_) known_.pop_back();
    return RunAll(device_, known_.front().operations);
  }
  known_.splice(known_.begin(), known_, found);
  if (found->graph == nullptr && !CaptureKnown(*found)) {
    return RunAll(device_, std::exchange(recorded_, {}));
  }
  recorded_.clear();
  ++launched_;
  return device_.Launch(*found->graph);
}

bool GraphDevice::CaptureKnown(Known& known) {
  auto graph = device_.Capture(known.operations);
  if (graph.ok()) {
    known.graph = *std::move(graph);
    ++captured_;
    return true;
  }
  known_.clear();
  max_graphs_ = absl::IsResourceExhausted(graph.status()) ? max_graphs_ / 2 : 0;
  LogWarning("{} keeps {} graphs from now on: {}", device_.name(), max_graphs_,
             std::string(graph.status().message()));
  return false;
}

absl::Status GraphDevice::Flush() {
  if (!recording_) return absl::OkStatus();
  recording_ = false;
  return RunAll(device_, std::exchange(recorded_, {}));
}

absl::Status GraphDevice::Run(const Operation& operation) {
  if (recording_ && InGraphs(operation)) {
    recorded_.push_back(operation);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(Flush());
  return device_.Run(operation);
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>> GraphDevice::Allocate(int64_t bytes) {
  RETURN_IF_ERROR(Flush());
  return device_.Allocate(bytes);
}
absl::Status GraphDevice::Upload(const void* host, int64_t bytes, void* to) {
  RETURN_IF_ERROR(Flush());
  return device_.Upload(host, bytes, to);
}
absl::Status GraphDevice::Download(const void* from, int64_t bytes, void* host) {
  RETURN_IF_ERROR(Flush());
  return device_.Download(from, bytes, host);
}
absl::Status GraphDevice::Wait() {
  RETURN_IF_ERROR(Flush());
  return device_.Wait();
}
absl::Status GraphDevice::Await(const DeviceBuffer& coming) {
  RETURN_IF_ERROR(Flush());
  return device_.Await(coming);
}
absl::Status GraphDevice::Launch(const DeviceGraph& graph) {
  RETURN_IF_ERROR(Flush());
  return device_.Launch(graph);
}

}  // namespace recollect::kernels
