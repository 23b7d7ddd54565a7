// A device in front of another that runs repeated operations as graphs. A model's step is many
// small launches, with the same arguments step after step; launching them as one takes a fraction
// of the host's time and of the device's idle time.
//   GraphDevice graphs(device);
//   graphs.Record([&] { …operations of `graphs`, some way down… });
// A sequence of operations that occurs a second time is captured, and launched as a graph from then
// on. Sequences are compared call by call with their arguments, not by a key.
#ifndef RECOLLECT_KERNELS_DEVICE_GRAPH_DEVICE_H_
#define RECOLLECT_KERNELS_DEVICE_GRAPH_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace recollect::kernels {

// One thread at a time, except for UploadAsync and the counts. Borrows the device, which others
// may use as well.
class GraphDevice final : public Device {
 public:
  // At most `max_graphs` graphs are kept; the least recently used one is dropped first. If the
  // device lacks memory for a graph, all are dropped, and from then on half as many are kept; if a
  // capture fails otherwise, none are made any more.
  explicit GraphDevice(Device& device, int max_graphs = 256);
  ~GraphDevice() override;

  // Runs `operations`; what it calls takes effect in order, by the time Record returns. If a call
  // allocates, waits, copies from or to the host, searches landmarks, mixes a pointer's tokens or
  // samples, the calls before it run first, and the rest run without a graph. Returns the status of
  // `operations` or of the device. Calls must not be nested.
  absl::Status Record(absl::FunctionRef<absl::Status()> operations);

  // To be called before memory is freed that operations within Record may use: runs these
  // operations, and the rest without a graph.
  absl::Status Flush();

  // Graphs captured, and graph launches, so far. From any thread.
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
                                                            int64_t bytes) override;
  absl::Status Await(const DeviceBuffer& coming) override;
  absl::Status PrepareGemm(const GemmShape& shape) override;
  absl::StatusOr<std::shared_ptr<DeviceGraph>> Capture(
      const CapturedOperations& operations) override;
  absl::Status Launch(const DeviceGraph& graph) override;

  absl::Status Zero(void* to, int64_t bytes) override;
  absl::Status Copy(const DeviceCopy* copies, int64_t count, int64_t most_bytes) override;
  absl::Status Gemm(const GemmShape& shape, const void* weights, const void* x, int64_t rows,
                    void* y) override;
  absl::Status RmsNorm(const RowSizes& sizes, const float* x, const float* gain, float eps,
                       const DeviceRows& y) override;
  absl::Status RmsNormByHead(const RowSizes& sizes, const float* x, const float* gain, float eps,
                             float* y) override;
  absl::Status SwiGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) override;
  absl::Status GeGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) override;
  absl::Status Gelu(const float* x, int64_t count, const DeviceRows& y) override;
  absl::Status SigmoidGate(const float* gate, int64_t gate_stride, const float* x, int64_t rows,
                           int64_t width, const DeviceRows& y) override;
  absl::Status Add(const float* x, int64_t count, float* y) override;
  absl::Status ConvertToBf16(const float* x, int64_t stride, int64_t rows, int64_t width,
                             Bf16* y) override;
  using DeviceOperations::ConvertToBf16;
  absl::Status Rope(const RowSizes& sizes, RopePairs pairs, const float* cosines,
                    const float* sines, float* x) override;
  absl::Status GatedScan(const GatedScanPlan& plan, const GatedScanDeviceArrays& arrays) override;
  absl::Status RangeAttention(const RangeAttentionPlan& plan,
                              const RangeDeviceArrays& arrays) override;
  absl::Status TileAttention(const TileAttentionPlan& plan,
                             const TileDeviceArrays& arrays) override;
  absl::Status Gca(const GcaPlan& plan, const GcaDeviceArrays& arrays) override;
  absl::Status LandmarkTopK(const LandmarkTopKPlan& plan, const float* queries,
                            const SegmentStart* segments, void* workspace,
                            const DeviceTopK& best) override;
  absl::Status BlockBounds(const BlockBoundsSizes& sizes, const KeyBlock* blocks) override;
  absl::Status BlockTopK(const BlockTopKPlan& plan, const BlockTopKDeviceArrays& arrays) override;
  absl::Status Features(FeatureMap map, const RowSizes& sizes, const float* x, const float* scale,
                        float* features) override;
  absl::Status LinearAttention(const LinearAttentionPlan& plan,
                               const LinearAttentionDeviceArrays& arrays) override;
  absl::Status MixPointed(int64_t rows, int64_t vocab, int32_t sentinel,
                          const PointedToken* pointed, const int64_t* ends, float* logits) override;
  absl::Status Sample(const float* logits, int64_t rows, int32_t vocab, const NeverChosen& never,
                      const SampleSettings* settings, int32_t* choices) override;

  // An operation and its arguments.
  class Call;

 private:
  using Calls = std::vector<std::unique_ptr<const Call>>;
  // A sequence that was run, and its graph once it has occurred again.
  struct Known {
    std::shared_ptr<const Calls> calls;
    std::shared_ptr<DeviceGraph> graph;
  };

  // Records the operation, or runs it when not recording.
  template <auto kOperation, typename... Args>
  absl::Status Append(const Args&... args);
  absl::Status RunRecorded();
  // Returns whether a graph was captured; a failed capture is not an error.
  bool CaptureKnown(Known& known);

  Device& device_;
  size_t max_graphs_;  // 0 after the device failed to capture
  bool recording_ = false;
  Calls recorded_;
  std::list<Known> known_;  // most recently used first
  std::atomic<int64_t> captured_ = 0, launched_ = 0;
};

// As for any device, but recorded operations may use the memory that is given up.
inline absl::StatusOr<void*> AtLeast(GraphDevice& device, int64_t bytes,
                                     std::shared_ptr<DeviceBuffer>& buffer) {
  if (buffer != nullptr && buffer->bytes() < bytes) {
    if (absl::Status status = device.Flush(); !status.ok()) return status;
  }
  return AtLeast(static_cast<Device&>(device), bytes, buffer);
}

}  // namespace recollect::kernels

#endif  // RECOLLECT_KERNELS_DEVICE_GRAPH_DEVICE_H_
