#include "tests/kernels/device/host_device.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/kernels/device/host_gemm.h"
#include "tests/kernels/device/host_launches.h"

namespace recollect::kernels {

template <typename Kind>
absl::StatusOr<std::shared_ptr<Kind>> HostDevice::Make(int64_t bytes) {
  std::shared_ptr<Kind> buffer;
  RETURN_IF_ERROR(Do([&] {
    if (live_->bytes + bytes > most_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          bytes, " bytes of device memory, ", this->bytes(), " are used of ", most_bytes_.load()));
    }
    buffer = std::make_shared<Kind>(live_, bytes);
    return absl::OkStatus();
  }));
  return buffer;
}

// Calls of all threads one after the other.
template <typename Call>
absl::Status HostDevice::Do(Call call) {
  std::lock_guard<std::mutex> lock(mutex_);
  return health_.Run([&] {
    if (calls_left_-- <= 0) return absl::UnavailableError("the test has lost the device");
    return call();
  });
}

absl::Status HostDevice::Move(const void* from, int64_t bytes, void* to) {
  return Do([&] {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  });
}

template <typename Function, typename Args>
absl::Status HostDevice::Rows(const char* op, int64_t stride, const DeviceRows& y, Args args_of) {
  return Do([&] {
    return WithNumbers(
        y, [&](auto* to) { return RowsOnHost<Function>(order_, op, stride, args_of(to)); });
  });
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>> HostDevice::Allocate(int64_t bytes) {
  return Make<Buffer>(bytes);
}

absl::Status HostDevice::Upload(const void* host, int64_t bytes, void* to) {
  return Move(host, bytes, to);
}

absl::Status HostDevice::Download(const void* from, int64_t bytes, void* host) {
  ++downloads_;
  downloaded_bytes_ += bytes;
  return Move(from, bytes, host);
}

absl::Status HostDevice::Wait() {
  ++waits_;
  return health_.status();
}

absl::StatusOr<std::shared_ptr<DeviceBuffer>> HostDevice::UploadAsync(const void* host,
                                                                      int64_t bytes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ComingBuffer> buffer, Make<ComingBuffer>(bytes));
  buffer->coming.resize(static_cast<size_t>(bytes));
  ++async_uploads_;
  RETURN_IF_ERROR(Move(host, bytes, buffer->coming.data()));
  return buffer;
}

absl::Status HostDevice::Await(const DeviceBuffer& coming) {
  const auto& bytes = static_cast<const ComingBuffer&>(coming).coming;
  return Move(bytes.data(), coming.bytes(), coming.data());
}

absl::StatusOr<std::shared_ptr<DeviceGraph>> HostDevice::Capture(
    const CapturedOperations& operations) {
  RETURN_IF_ERROR(captures_);
  auto graph = std::make_shared<Graph>();
  graph->operations = operations;
  return graph;
}

absl::Status HostDevice::Launch(const DeviceGraph& graph) {
  ++launches_;
  return static_cast<const Graph&>(graph).operations(*this);
}

absl::Status HostDevice::Zero(void* to, int64_t bytes) {
  return Do([&] {
    if (bytes > 0) std::memset(to, 0, static_cast<size_t>(bytes));
    return absl::OkStatus();
  });
}

absl::Status HostDevice::Copy(const DeviceCopy* copies, int64_t count, int64_t most_bytes) {
  return Do([&] { return CopyOnHost(order_, copies, count, most_bytes); });
}

absl::Status HostDevice::PrepareGemm(const GemmShape& shape) {
  return Do([&] { return CheckGemmShape(shape); });
}

absl::Status HostDevice::Gemm(const GemmShape& shape, const void* weights, const void* x,
                              int64_t rows, void* y) {
  return Do([&] { return GemmOnHost(shape, weights, x, rows, y); });
}

absl::Status HostDevice::RmsNorm(const RowSizes& sizes, const float* x, const float* gain,
                                 float eps, const DeviceRows& y) {
  return Do([&] {
    return WithNumbers(y, [&](auto* to) { return RmsNormOnHost(order_, sizes, x, gain, eps, to); });
  });
}

absl::Status HostDevice::RmsNormByHead(const RowSizes& sizes, const float* x, const float* gain,
                                       float eps, float* y) {
  return Do([&] { return RmsNormByHeadOnHost(order_, sizes, x, gain, eps, y); });
}

absl::Status HostDevice::SwiGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) {
  return Rows<cuda::SiluProduct>("SwiGLU", width, y,
                                 [&](auto* to) { return cuda::GluArgs(x, rows, width, to); });
}

absl::Status HostDevice::GeGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) {
  return Rows<cuda::GeluProduct>("GEGLU", width, y,
                                 [&](auto* to) { return cuda::GluArgs(x, rows, width, to); });
}

absl::Status HostDevice::Gelu(const float* x, int64_t count, const DeviceRows& y) {
  return Rows<cuda::GeluAlone>("GELU", count, y,
                               [&](auto* to) { return cuda::FlatArgs(x, nullptr, count, to); });
}

absl::Status HostDevice::SigmoidGate(const float* gate, int64_t gate_stride, const float* x,
                                     int64_t rows, int64_t width, const DeviceRows& y) {
  return Rows<cuda::SigmoidProduct>("sigmoid gate", gate_stride, y, [&](auto* to) {
    return cuda::GateArgs(gate, gate_stride, x, rows, width, to);
  });
}

absl::Status HostDevice::Add(const float* x, int64_t count, float* y) {
  return Do(
      [&] { return RowsOnHost<cuda::Sum>(order_, "sum", count, cuda::FlatArgs(y, x, count, y)); });
}

absl::Status HostDevice::ConvertToBf16(const float* x, int64_t stride, int64_t rows, int64_t width,
                                       Bf16* y) {
  return Do([&] {
    return RowsOnHost<cuda::Unchanged>(order_, "conversion to bf16", stride,
                                       cuda::StridedArgs(x, stride, rows, width, y));
  });
}

absl::Status HostDevice::Rope(const RowSizes& sizes, RopePairs pairs, const float* cosines,
                              const float* sines, float* x) {
  return Do([&] { return RopeOnHost(order_, sizes, pairs, cosines, sines, x); });
}

absl::Status HostDevice::GatedScan(const GatedScanPlan& plan, const GatedScanDeviceArrays& arrays) {
  return Do([&] { return GatedScanOnHost(order_, plan, arrays); });
}

absl::Status HostDevice::RangeAttention(const RangeAttentionPlan& plan,
                                        const RangeDeviceArrays& arrays) {
  return Do([&] { return RangeAttentionOnHost(order_, plan, arrays); });
}

absl::Status HostDevice::TileAttention(const TileAttentionPlan& plan,
                                       const TileDeviceArrays& arrays) {
  return Do([&] { return TileAttentionOnHost(order_, plan, arrays); });
}

absl::Status HostDevice::Gca(const GcaPlan& plan, const GcaDeviceArrays& arrays) {
  return Do([&] { return GcaOnHost(order_, plan, arrays); });
}

absl::Status HostDevice::LandmarkTopK(const LandmarkTopKPlan& plan, const float* queries,
                                      const SegmentStart* segments, void* workspace,
                                      const DeviceTopK& best) {
  return Do([&] { return LandmarkTopKOnHost(order_, plan, queries, segments, workspace, best); });
}

absl::Status HostDevice::BlockBounds(const BlockBoundsSizes& sizes, const KeyBlock* blocks) {
  return Do([&] { return BlockBoundsOnHost(order_, sizes, blocks); });
}

absl::Status HostDevice::BlockTopK(const BlockTopKPlan& plan, const BlockTopKDeviceArrays& arrays) {
  return Do([&] { return BlockTopKOnHost(order_, plan, arrays); });
}

absl::Status HostDevice::Features(FeatureMap map, const RowSizes& sizes, const float* x,
                                  const float* scale, float* features) {
  return Do([&] { return FeaturesOnHost(order_, map, sizes, x, scale, features); });
}

absl::Status HostDevice::LinearAttention(const LinearAttentionPlan& plan,
                                         const LinearAttentionDeviceArrays& arrays) {
  return Do([&] { return LinearAttentionOnHost(order_, plan, arrays); });
}

absl::Status HostDevice::MixPointed(int64_t rows, int64_t vocab, int32_t sentinel,
                                    const PointedToken* pointed, const int64_t* ends,
                                    float* logits) {
  return Do([&] { return MixPointedOnHost(order_, rows, vocab, sentinel, pointed, ends, logits); });
}

absl::Status HostDevice::Sample(const float* logits, int64_t rows, int32_t vocab,
                                const NeverChosen& never, const SampleSettings* settings,
                                int32_t* choices) {
  return Do([&] { return SampleOnHost(order_, logits, rows, vocab, never, settings, choices); });
}

}  // namespace recollect::kernels
