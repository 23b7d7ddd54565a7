// A device in front of another that runs repeated operations as graphs. A model's step is many
// small launches, with the same arguments step after step; launching them as one takes a fraction
// of the host's time and of the device's idle time.
//   GraphDevice graphs(device);
//   graphs.Record([&] { …operations of `graphs`, some way down… });
// A sequence of operations that occurs a second time is captured, and launched as a graph from then
// on. Sequences are compared operation by operation, not by a key.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace recollect::kernels {

// Used by one thread at a time, except for UploadAsync and the counts. Borrows the device, which
// others may use as well.
class GraphDevice final : public Device {
 public:
  // Keeps at most `max_graphs` graphs and drops the least recently used one first. If the device
  // lacks memory for a graph, all are dropped, and from then on half as many are kept; if a capture
  // fails for another reason, no more graphs are made.
  explicit GraphDevice(Device& device, int max_graphs = 256);
  ~GraphDevice() override;

  // Runs `operations`; what it calls takes effect in order, by the time Record returns. If a call
  // allocates, waits, copies from or to the host, or runs an operation that graphs do not hold
  // (InGraphs), the calls before it run first, and the rest run without a graph. Returns the status
  // of `operations` or of the device. Calls must not be nested.
  absl::Status Record(absl::FunctionRef<absl::Status()> operations);

  // Runs the operations recorded so far; the rest of this Record runs without a graph. Must be
  // called before memory is freed that operations within Record may use.
  absl::Status Flush();

  // The numbers of graphs captured and of graph launches so far. May be called from any thread.
  int64_t captured() const { return captured_; }
  int64_t launched() const { return launched_; }

  std::string name() const override { return device_.name(); }
  absl::Status health() const override { return device_.health(); }
  DeviceRoom room() const override { return device_.room(); }
  int multiprocessors() const override { return device_.multiprocessors(); }
  absl::StatusOr<std::shared_ptr<DeviceBuffer>> Allocate(int64_t bytes) override;
  absl::Status Upload(const void* host, int64_t bytes, void* to) override;
  absl::Status Download(const void* from, int64_t bytes, void* host) override;
  absl::Status Wait() override;
  absl::StatusOr<std::shared_ptr<DeviceBuffer>> UploadAsync(const void* host,
                                                            int64_t bytes) override {
    return device_.UploadAsync(host, bytes);
  }
  absl::StatusOr<std::vector<std::shared_ptr<DeviceBuffer>>> UploadAllAsync(
      std::span<const std::span<const std::byte>> arrays) override {
    return device_.UploadAllAsync(arrays);
  }
  absl::Status Await(const DeviceBuffer& coming) override;
  absl::Status PrepareGemm(const GemmShape& shape) override { return device_.PrepareGemm(shape); }
  absl::StatusOr<std::shared_ptr<DeviceGraph>> Capture(
      std::span<const Operation> operations) override {
    return device_.Capture(operations);
  }
  absl::Status Launch(const DeviceGraph& graph) override;
  absl::Status Run(const Operation& operation) override;

 private:
  // A sequence that was run, and its graph once it has occurred again.
  struct Known {
    std::vector<Operation> operations;
    std::shared_ptr<DeviceGraph> graph;
  };

  absl::Status RunRecorded();
  // Returns whether a graph was captured; a failed capture is not an error.
  bool CaptureKnown(Known& known);

  Device& device_;
  size_t max_graphs_;  // 0 after the device failed to capture
  bool recording_ = false;
  std::vector<Operation> recorded_;
  std::list<Known> known_;  // most recently used first
  std::atomic<int64_t> captured_ = 0, launched_ = 0;
};

// Does the same as for any device, but first runs recorded operations, which may use the memory
// that is given up.
inline absl::StatusOr<void*> AtLeast(GraphDevice& device, int64_t bytes,
                                     std::shared_ptr<DeviceBuffer>& buffer) {
  if (buffer != nullptr && buffer->bytes() < bytes) {
    if (absl::Status status = device.Flush(); !status.ok()) return status;
  }
  return AtLeast(static_cast<Device&>(device), bytes, buffer);
}

}  // namespace recollect::kernels
