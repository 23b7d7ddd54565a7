#include "kernels/device/graph_device.h"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"

namespace recollect::kernels {

class GraphDevice::Call {
 public:
  virtual ~Call() = default;
  virtual bool SameAs(const Call& other) const = 0;
  virtual absl::Status Run(DeviceOperations& operations) const = 0;
};

namespace {

// Each operation has a type of its own: calls of one type differ in their arguments alone.
template <auto kOperation>
class CallOf;

template <typename... Params, absl::Status (DeviceOperations::*kOperation)(Params...)>
class CallOf<kOperation> final : public GraphDevice::Call {
 public:
  explicit CallOf(const std::decay_t<Params>&... args) : args_(args...) {}
  bool SameAs(const Call& other) const override {
    const auto* const same_type = dynamic_cast<const CallOf*>(&other);
    return same_type != nullptr && same_type->args_ == args_;
  }
  absl::Status Run(DeviceOperations& operations) const override {
    return std::apply([&](const auto&... args) { return (operations.*kOperation)(args...); },
                      args_);
  }

 private:
  const std::tuple<std::decay_t<Params>...> args_;
};

template <typename Calls>
bool SameCalls(const Calls& a, const Calls& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x->SameAs(*y); });
}

template <typename Calls>
absl::Status RunAll(const Calls& calls, DeviceOperations& operations) {
  for (const auto& call : calls) RETURN_IF_ERROR(call->Run(operations));
  return absl::OkStatus();
}

}  // namespace

GraphDevice::GraphDevice(Device& device, int max_graphs)
    : device_(device), max_graphs_(static_cast<size_t>(max_graphs)) {}

GraphDevice::~GraphDevice() = default;

absl::Status GraphDevice::Record(absl::FunctionRef<absl::Status()> operations) {
  RECOLLECT_CHECK(!recording_ && recorded_.empty());
  recording_ = max_graphs_ > 0;
  const absl::Status status = operations();
  recording_ = false;
  if (status.ok()) return RunRecorded();
  recorded_.clear();
  return status;
}

absl::Status GraphDevice::RunRecorded() {
  Calls taken = std::exchange(recorded_, {});
  if (taken.empty()) return absl::OkStatus();
  const auto same = [&](const Known& known) { return SameCalls(*known.calls, taken); };
  const auto found = std::find_if(known_.begin(), known_.end(), same);
  if (found == known_.end()) {
    known_.push_front({std::make_shared<const Calls>(std::move(taken)), nullptr});
    if (known_.size() > max_graphs_) known_.pop_back();
    return RunAll(*known_.front().calls, device_);
  }
  known_.splice(known_.begin(), known_, found);
  if (found->graph == nullptr && !CaptureKnown(*found)) return RunAll(taken, device_);
  ++launched_;
  return device_.Launch(*found->graph);
}

bool GraphDevice::CaptureKnown(Known& known) {
  auto graph = device_.Capture(
      [calls = known.calls](DeviceOperations& operations) { return RunAll(*calls, operations); });
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
  return RunAll(std::exchange(recorded_, {}), device_);
}

template <auto kOperation, typename... Args>
absl::Status GraphDevice::Append(const Args&... args) {
  if (!recording_) return (device_.*kOperation)(args...);
  recorded_.push_back(std::make_unique<const CallOf<kOperation>>(args...));
  return absl::OkStatus();
}

// ---- Not in graphs: layers do none of it
// ---------------------------------------------------------

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
absl::StatusOr<std::shared_ptr<DeviceBuffer>> GraphDevice::UploadAsync(const void* host,
                                                                       int64_t bytes) {
  return device_.UploadAsync(host, bytes);
}
absl::Status GraphDevice::Await(const DeviceBuffer& coming) {
  RETURN_IF_ERROR(Flush());
  return device_.Await(coming);
}
absl::Status GraphDevice::PrepareGemm(const GemmShape& shape) { return device_.PrepareGemm(shape); }
absl::StatusOr<std::shared_ptr<DeviceGraph>> GraphDevice::Capture(
    const CapturedOperations& operations) {
  return device_.Capture(operations);
}
absl::Status GraphDevice::Launch(const DeviceGraph& graph) {
  RETURN_IF_ERROR(Flush());
  return device_.Launch(graph);
}
absl::Status GraphDevice::LandmarkTopK(const LandmarkTopKPlan& plan, const float* queries,
                                       const SegmentStart* segments, void* workspace,
                                       const DeviceTopK& best) {
  RETURN_IF_ERROR(Flush());
  return device_.LandmarkTopK(plan, queries, segments, workspace, best);
}
absl::Status GraphDevice::MixPointed(int64_t rows, int64_t vocab, int32_t sentinel,
                                     const PointedToken* pointed, const int64_t* ends,
                                     float* logits) {
  RETURN_IF_ERROR(Flush());
  return device_.MixPointed(rows, vocab, sentinel, pointed, ends, logits);
}
absl::Status GraphDevice::Sample(const float* logits, int64_t rows, int32_t vocab,
                                 const NeverChosen& never, const SampleSettings* settings,
                                 int32_t* choices) {
  RETURN_IF_ERROR(Flush());
  return device_.Sample(logits, rows, vocab, never, settings, choices);
}

// ---- In graphs ---------------------------------------------------------------------------------

absl::Status GraphDevice::Zero(void* to, int64_t bytes) {
  return Append<&DeviceOperations::Zero>(to, bytes);
}
absl::Status GraphDevice::Copy(const DeviceCopy* copies, int64_t count, int64_t most_bytes) {
  return Append<&DeviceOperations::Copy>(copies, count, most_bytes);
}
absl::Status GraphDevice::Gemm(const GemmShape& shape, const void* weights, const void* x,
                               int64_t rows, void* y) {
  return Append<&DeviceOperations::Gemm>(shape, weights, x, rows, y);
}
absl::Status GraphDevice::RmsNorm(const RowSizes& sizes, const float* x, const float* gain,
                                  float eps, const DeviceRows& y) {
  return Append<&DeviceOperations::RmsNorm>(sizes, x, gain, eps, y);
}
absl::Status GraphDevice::RmsNormByHead(const RowSizes& sizes, const float* x, const float* gain,
                                        float eps, float* y) {
  return Append<&DeviceOperations::RmsNormByHead>(sizes, x, gain, eps, y);
}
absl::Status GraphDevice::SwiGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) {
  return Append<&DeviceOperations::SwiGlu>(x, rows, width, y);
}
absl::Status GraphDevice::GeGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) {
  return Append<&DeviceOperations::GeGlu>(x, rows, width, y);
}
absl::Status GraphDevice::Gelu(const float* x, int64_t count, const DeviceRows& y) {
  return Append<&DeviceOperations::Gelu>(x, count, y);
}
absl::Status GraphDevice::SigmoidGate(const float* gate, int64_t gate_stride, const float* x,
                                      int64_t rows, int64_t width, const DeviceRows& y) {
  return Append<&DeviceOperations::SigmoidGate>(gate, gate_stride, x, rows, width, y);
}
absl::Status GraphDevice::Add(const float* x, int64_t count, float* y) {
  return Append<&DeviceOperations::Add>(x, count, y);
}
absl::Status GraphDevice::ConvertToBf16(const float* x, int64_t stride, int64_t rows, int64_t width,
                                        Bf16* y) {
  constexpr absl::Status (DeviceOperations::*kOfRows)(const float*, int64_t, int64_t, int64_t,
                                                      Bf16*) = &DeviceOperations::ConvertToBf16;
  return Append<kOfRows>(x, stride, rows, width, y);
}
absl::Status GraphDevice::Rope(const RowSizes& sizes, RopePairs pairs, const float* cosines,
                               const float* sines, float* x) {
  return Append<&DeviceOperations::Rope>(sizes, pairs, cosines, sines, x);
}
absl::Status GraphDevice::GatedScan(const GatedScanPlan& plan,
                                    const GatedScanDeviceArrays& arrays) {
  return Append<&DeviceOperations::GatedScan>(plan, arrays);
}
absl::Status GraphDevice::RangeAttention(const RangeAttentionPlan& plan,
                                         const RangeDeviceArrays& arrays) {
  return Append<&DeviceOperations::RangeAttention>(plan, arrays);
}
absl::Status GraphDevice::TileAttention(const TileAttentionPlan& plan,
                                        const TileDeviceArrays& arrays) {
  return Append<&DeviceOperations::TileAttention>(plan, arrays);
}
absl::Status GraphDevice::Gca(const GcaPlan& plan, const GcaDeviceArrays& arrays) {
  return Append<&DeviceOperations::Gca>(plan, arrays);
}
absl::Status GraphDevice::BlockBounds(const BlockBoundsSizes& sizes, const KeyBlock* blocks) {
  return Append<&DeviceOperations::BlockBounds>(sizes, blocks);
}
absl::Status GraphDevice::BlockTopK(const BlockTopKPlan& plan,
                                    const BlockTopKDeviceArrays& arrays) {
  return Append<&DeviceOperations::BlockTopK>(plan, arrays);
}
absl::Status GraphDevice::Features(FeatureMap map, const RowSizes& sizes, const float* x,
                                   const float* scale, float* features) {
  return Append<&DeviceOperations::Features>(map, sizes, x, scale, features);
}
absl::Status GraphDevice::LinearAttention(const LinearAttentionPlan& plan,
                                          const LinearAttentionDeviceArrays& arrays) {
  return Append<&DeviceOperations::LinearAttention>(plan, arrays);
}

}  // namespace recollect::kernels
