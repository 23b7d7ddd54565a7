// A device for tests without one: the thread blocks of the CUDA operations on the host
// (host_launches.h), in plain memory. It is strict where a GPU is not: fresh memory is NaN, what
// plans and arrays disagree on is refused, and an access outside of a buffer is the address
// sanitizer's to find. It runs out of memory and is lost when a test says so.
//   auto device = std::make_shared<HostDevice>();
//   device->LimitBytes(1 << 20);
#ifndef RECOLLECT_TESTS_KERNELS_DEVICE_HOST_DEVICE_H_
#define RECOLLECT_TESTS_KERNELS_DEVICE_HOST_DEVICE_H_

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

#include "kernels/device/device.h"
#include "kernels/device/device_health.h"
#include "tests/kernels/device/host_block.h"

namespace recollect::kernels {

class HostDevice final : public Device {
 public:
  explicit HostDevice(HostOrder order = HostOrder::kPhases) : order_(order) {}

  // What lives now, buffers and their bytes.
  int64_t buffers() const { return live_->buffers; }
  int64_t bytes() const { return live_->bytes; }
  int64_t downloads() const { return downloads_; }  // so far
  int64_t downloaded_bytes() const { return downloaded_bytes_; }
  int64_t async_uploads() const { return async_uploads_; }
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

  absl::StatusOr<std::shared_ptr<DeviceBuffer>> Allocate(int64_t bytes) override;
  absl::Status Upload(const void* host, int64_t bytes, void* to) override;
  absl::Status Download(const void* from, int64_t bytes, void* host) override;
  absl::Status Wait() override;
  absl::StatusOr<std::shared_ptr<DeviceBuffer>> UploadAsync(const void* host,
                                                            int64_t bytes) override;
  absl::Status Await(const DeviceBuffer& coming) override;
  absl::StatusOr<std::shared_ptr<DeviceGraph>> Capture(
      const CapturedOperations& operations) override;
  absl::Status Launch(const DeviceGraph& graph) override;
  absl::Status Zero(void* to, int64_t bytes) override;
  absl::Status Copy(const DeviceCopy* copies, int64_t count, int64_t most_bytes) override;
  absl::Status PrepareGemm(const GemmShape& shape) override;
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
  absl::StatusOr<std::shared_ptr<Kind>> Make(int64_t bytes);
  template <typename Call>
  absl::Status Do(Call call);
  absl::Status Move(const void* from, int64_t bytes, void* to);
  template <typename Function, typename Args>
  absl::Status Rows(const char* op, int64_t stride, const DeviceRows& y, Args args_of);

  const HostOrder order_;
  const std::shared_ptr<Live> live_ = std::make_shared<Live>();
  std::atomic<int64_t> most_bytes_ = int64_t{4} << 30;
  absl::Status captures_;  // what captures give
  std::atomic<int64_t> calls_left_ = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> downloads_ = 0, downloaded_bytes_ = 0, async_uploads_ = 0, waits_ = 0;
  std::atomic<int64_t> launches_ = 0;
  std::mutex mutex_;
  DeviceHealth health_;
};

}  // namespace recollect::kernels

#endif  // RECOLLECT_TESTS_KERNELS_DEVICE_HOST_DEVICE_H_
