// A device for tests without one: runs the thread blocks of the CUDA operations on the host
// (host_launches.h), in plain memory. It is stricter than a GPU: fresh memory is NaN, arrays that
// disagree with their plan are refused, and the address sanitizer finds accesses outside of a
// buffer. It runs out of memory and is lost when a test says so.
//   auto device = std::make_shared<HostDevice>();
//   device->LimitBytes(1 << 20);
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/device/device_health.h"
#include "tests/kernels/device/host_block.h"

namespace recollect::kernels {

class HostDevice final : public Device {
 public:
  explicit HostDevice(HostOrder order = HostOrder::kPhases) : order_(order) {}

  // The buffers that exist now, and their bytes.
  int64_t buffers() const { return live_->buffers; }
  int64_t bytes() const { return live_->bytes; }
  int64_t downloads() const { return downloads_; }  // so far
  int64_t downloaded_bytes() const { return downloaded_bytes_; }
  int64_t async_uploads() const { return async_uploads_; }
  int64_t waits() const { return waits_; }
  int64_t launches() const { return launches_; }  // of graphs
  // Limits the bytes of all buffers together; existing buffers stay.
  void LimitBytes(int64_t bytes) { most_bytes_ = bytes; }
  // Sets the status of all later captures; OK: they succeed.
  void RefuseGraphs(absl::Status status) { captures_ = std::move(status); }
  // Loses the device after `calls` more operations, of any kind.
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
      std::span<const Operation> operations) override;
  absl::Status Launch(const DeviceGraph& graph) override;
  absl::Status Run(const Operation& operation) override;
  absl::Status PrepareGemm(const GemmShape& shape) override;

 private:
  // Counts buffers and their bytes; shared, since buffers may outlive the device.
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
    std::vector<Operation> operations;
  };

  // A buffer whose content arrives as late as an asynchronous upload may: operations find it only
  // after Await.
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
