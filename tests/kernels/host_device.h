// A device for tests without one: the thread blocks of the CUDA operations on the host
// (host_launches.h), in plain memory. It is strict where a GPU is not: fresh memory is NaN, what
// plans and arrays disagree on is refused, and an access outside of a buffer is the address
// sanitizer's to find. It runs out of memory and is lost when a test says so.
//   auto device = std::make_shared<HostDevice>();
//   device->LimitBytes(1 << 20);
#ifndef RECOLLECT_TESTS_KERNELS_HOST_DEVICE_H_
#define RECOLLECT_TESTS_KERNELS_HOST_DEVICE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/device_health.h"
#include "tests/kernels/host_gemm.h"
#include "tests/kernels/host_launches.h"

namespace recollect::kernels {

class HostDevice final : public Device {
 public:
  explicit HostDevice(HostOrder order = HostOrder::kPhases) : order_(order) {}

  // What lives now, buffers and their bytes.
  int64_t buffers() const { return live_->buffers; }
  int64_t bytes() const { return live_->bytes; }
  int64_t downloads() const { return downloads_; }  // so far
  int64_t downloaded_bytes() const { return downloaded_bytes_; }
  int64_t uploads_beside() const { return uploads_beside_; }
  int64_t waits() const { return waits_; }
  int64_t launches() const { return launches_; }  // of graphs
  // All buffers together; what is there stays.
  void LimitBytes(int64_t bytes) { most_bytes_ = bytes; }
  // Captures fail so, or do not.
  void RefuseGraphs(absl::Status status) { captures_ = std::move(status); }
  // After `calls` more operations, of any kind.
  void LoseAfter(int64_t calls) { calls_left_ = calls; }

  std::string name() const override { return "host"; }
  absl::Status health() const override { return health_.status(); }
  DeviceRoom room() const override {
    if (!health().ok()) return {};
    return {std::max<int64_t>(most_bytes_ - bytes(), 0), most_bytes_};
  }
  int multiprocessors() const override { return 4; }

  absl::StatusOr<std::shared_ptr<DeviceBuffer>> Allocate(int64_t bytes) override {
    return Make<Buffer>(bytes);
  }
  absl::Status Upload(const void* host, int64_t bytes, void* to) override {
    return Move(host, bytes, to);
  }
  absl::Status Download(const void* from, int64_t bytes, void* host) override {
    ++downloads_;
    downloaded_bytes_ += bytes;
    return Move(from, bytes, host);
  }
  absl::Status Wait() override {
    ++waits_;
    return health_.status();
  }
  absl::StatusOr<std::shared_ptr<DeviceBuffer>> UploadBeside(const void* host,
                                                             int64_t bytes) override {
    ASSIGN_OR_RETURN(const std::shared_ptr<ComingBuffer> buffer, Make<ComingBuffer>(bytes));
    buffer->coming.resize(static_cast<size_t>(bytes));
    ++uploads_beside_;
    RETURN_IF_ERROR(Move(host, bytes, buffer->coming.data()));
    return buffer;
  }
  absl::Status Await(const DeviceBuffer& coming) override {
    const auto& bytes = static_cast<const ComingBuffer&>(coming).coming;
    return Move(bytes.data(), coming.bytes(), coming.data());
  }
  absl::StatusOr<std::shared_ptr<DeviceGraph>> Capture(
      const CapturedOperations& operations) override {
    RETURN_IF_ERROR(captures_);
    auto graph = std::make_shared<Graph>();
    graph->operations = operations;
    return graph;
  }
  absl::Status Launch(const DeviceGraph& graph) override {
    ++launches_;
    return static_cast<const Graph&>(graph).operations(*this);
  }

  absl::Status Zero(void* to, int64_t bytes) override {
    return Do([&] {
      if (bytes > 0) std::memset(to, 0, static_cast<size_t>(bytes));
      return absl::OkStatus();
    });
  }
  absl::Status Copy(const DeviceCopy* copies, int64_t count, int64_t most_bytes) override {
    return Do([&] { return CopyOnHost(order_, copies, count, most_bytes); });
  }

  absl::Status PrepareGemm(const GemmShape& shape) override {
    return Do([&] { return CheckGemmShape(shape); });
  }
  absl::Status Gemm(const GemmShape& shape, const void* weights, const void* x, int64_t rows,
                    void* y) override {
    return Do([&] { return GemmOnHost(shape, weights, x, rows, y); });
  }

  absl::Status RmsNorm(const RowSizes& sizes, const float* x, const float* gain, float eps,
                       const DeviceRows& y) override {
    return Do([&] {
      return WithNumbers(y,
                         [&](auto* to) { return RmsNormOnHost(order_, sizes, x, gain, eps, to); });
    });
  }
  absl::Status RmsNormByHead(const RowSizes& sizes, const float* x, const float* gain, float eps,
                             float* y) override {
    return Do([&] { return RmsNormByHeadOnHost(order_, sizes, x, gain, eps, y); });
  }
  absl::Status SwiGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) override {
    return Rows<cuda::SiluProduct>("SwiGLU", width, y,
                                   [&](auto* to) { return cuda::GluArgs(x, rows, width, to); });
  }
  absl::Status GeGlu(const float* x, int64_t rows, int64_t width, const DeviceRows& y) override {
    return Rows<cuda::GeluProduct>("GEGLU", width, y,
                                   [&](auto* to) { return cuda::GluArgs(x, rows, width, to); });
  }
  absl::Status Gelu(const float* x, int64_t count, const DeviceRows& y) override {
    return Rows<cuda::GeluAlone>("GELU", count, y,
                                 [&](auto* to) { return cuda::FlatArgs(x, nullptr, count, to); });
  }
  absl::Status SigmoidGate(const float* gate, int64_t gate_stride, const float* x, int64_t rows,
                           int64_t width, const DeviceRows& y) override {
    return Rows<cuda::SigmoidProduct>("sigmoid gate", gate_stride, y, [&](auto* to) {
      return cuda::GateArgs(gate, gate_stride, x, rows, width, to);
    });
  }
  absl::Status Add(const float* x, int64_t count, float* y) override {
    return Do([&] {
      return RowsOnHost<cuda::Sum>(order_, "sum", count, cuda::FlatArgs(y, x, count, y));
    });
  }
  absl::Status ConvertToBf16(const float* x, int64_t stride, int64_t rows, int64_t width,
                             Bf16* y) override {
    return Do([&] {
      return RowsOnHost<cuda::Unchanged>(order_, "conversion to bf16", stride,
                                         cuda::StridedArgs(x, stride, rows, width, y));
    });
  }

  absl::Status Rope(const RowSizes& sizes, RopePairs pairs, const float* cosines,
                    const float* sines, float* x) override {
    return Do([&] { return RopeOnHost(order_, sizes, pairs, cosines, sines, x); });
  }
  absl::Status GatedScan(const GatedScanPlan& plan, const GatedScanDeviceArrays& arrays) override {
    return Do([&] { return GatedScanOnHost(order_, plan, arrays); });
  }
  absl::Status RangeAttention(const RangeAttentionPlan& plan,
                              const RangeDeviceArrays& arrays) override {
    return Do([&] { return RangeAttentionOnHost(order_, plan, arrays); });
  }
  absl::Status TileAttention(const TileAttentionPlan& plan,
                             const TileDeviceArrays& arrays) override {
    return Do([&] { return TileAttentionOnHost(order_, plan, arrays); });
  }
  absl::Status Gca(const GcaPlan& plan, const GcaDeviceArrays& arrays) override {
    return Do([&] { return GcaOnHost(order_, plan, arrays); });
  }
  absl::Status LandmarkTopK(const LandmarkTopKPlan& plan, const float* queries,
                            const SegmentStart* segments, void* workspace,
                            const DeviceTopK& best) override {
    return Do([&] { return LandmarkTopKOnHost(order_, plan, queries, segments, workspace, best); });
  }
  absl::Status BlockBounds(const BlockBoundsSizes& sizes, const KeyBlock* blocks) override {
    return Do([&] { return BlockBoundsOnHost(order_, sizes, blocks); });
  }
  absl::Status BlockTopK(const BlockTopKPlan& plan, const BlockTopKDeviceArrays& arrays) override {
    return Do([&] { return BlockTopKOnHost(order_, plan, arrays); });
  }
  absl::Status Features(FeatureMap map, const RowSizes& sizes, const float* x, const float* scale,
                        float* features) override {
    return Do([&] { return FeaturesOnHost(order_, map, sizes, x, scale, features); });
  }
  absl::Status LinearAttention(const LinearAttentionPlan& plan,
                               const LinearAttentionDeviceArrays& arrays) override {
    return Do([&] { return LinearAttentionOnHost(order_, plan, arrays); });
  }
  absl::Status Sample(const float* logits, int64_t rows, int32_t vocab, const NeverChosen& never,
                      const SampleSettings* settings, int32_t* choices) override {
    return Do([&] { return SampleOnHost(order_, logits, rows, vocab, never, settings, choices); });
  }

 private:
  // Buffers may go after the device: what counts them does, too.
  struct Live {
    std::atomic<int64_t> buffers = 0, bytes = 0;
  };
  class Buffer : public DeviceBuffer {
   public:
    Buffer(std::shared_ptr<Live> live, int64_t bytes)
        : DeviceBuffer(::operator new(static_cast<size_t>(bytes), kAlignment), bytes),
          live_(std::move(live)) {
      std::memset(data(), 0xff, static_cast<size_t>(bytes));
      ++live_->buffers;
      live_->bytes += bytes;
    }
    ~Buffer() override {
      ::operator delete(data(), kAlignment);
      --live_->buffers;
      live_->bytes -= bytes();
    }

   private:
    static constexpr std::align_val_t kAlignment{256};
    const std::shared_ptr<Live> live_;
  };

  struct Graph final : DeviceGraph {
    CapturedOperations operations;
  };

  // As late as a copy beside the operations may be: they find what it brings after Await only.
  class ComingBuffer final : public Buffer {
   public:
    using Buffer::Buffer;
    std::vector<std::byte> coming;
  };

  template <typename Kind>
  absl::StatusOr<std::shared_ptr<Kind>> Make(int64_t bytes) {
    std::shared_ptr<Kind> buffer;
    RETURN_IF_ERROR(Do([&] {
      if (live_->bytes + bytes > most_bytes_) {
        return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes of device memory, ",
                                                         this->bytes(), " are used of ",
                                                         most_bytes_.load()));
      }
      buffer = std::make_shared<Kind>(live_, bytes);
      return absl::OkStatus();
    }));
    return buffer;
  }
  // Calls of all threads one after the other.
  template <typename Call>
  absl::Status Do(Call call) {
    std::lock_guard<std::mutex> lock(mutex_);
    return health_.Run([&] {
      if (calls_left_-- <= 0) return absl::UnavailableError("the test has lost the device");
      return call();
    });
  }
  absl::Status Move(const void* from, int64_t bytes, void* to) {
    return Do([&] {
      if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
      return absl::OkStatus();
    });
  }
  template <typename Function, typename Args>
  absl::Status Rows(const char* op, int64_t stride, const DeviceRows& y, Args args_of) {
    return Do([&] {
      return WithNumbers(
          y, [&](auto* to) { return RowsOnHost<Function>(order_, op, stride, args_of(to)); });
    });
  }

  const HostOrder order_;
  const std::shared_ptr<Live> live_ = std::make_shared<Live>();
  std::atomic<int64_t> most_bytes_ = int64_t{4} << 30;
  absl::Status captures_;  // what captures give
  std::atomic<int64_t> calls_left_ = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> downloads_ = 0, downloaded_bytes_ = 0, uploads_beside_ = 0, waits_ = 0;
  std::atomic<int64_t> launches_ = 0;
  std::mutex mutex_;
  DeviceHealth health_;
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_TESTS_KERNELS_HOST_DEVICE_H_
